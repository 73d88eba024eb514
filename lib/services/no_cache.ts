/** Where there are no files to look at: a house over a card and two servers alone. */
import { DEFAULT_CACHE_POLICY } from "../model/cache.ts";
import type { Files } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import type { PageCache } from "../model/page_cache.ts";
import type { CachePorts } from "./cache_keeper.ts";

const nothing = () => Promise.resolve(null);
const NO_FILES: Files = {
  list: nothing,
  stat: nothing,
  find: () => Promise.resolve({ kind: "gone" }),
  realPath: nothing,
  readText: nothing,
  busy: 0,
};

const refuse = () => Promise.reject(new Failure("unavailable", "There is no page cache to work on here"));
const NO_PAGE_CACHE: PageCache = {
  measure: () => Promise.resolve([]),
  probe: () => Promise.resolve([]),
  warm: refuse,
  queue: () => [],
  pin: refuse,
  unpin: () => Promise.resolve(false),
  pinned: () => [],
  close: () => Promise.resolve(),
};

export const NO_CACHE: CachePorts = {
  files: NO_FILES,
  pageCache: NO_PAGE_CACHE,
  settings: { ollamaStores: [], comfyFolders: [], comfyExtraFiles: [], linkTargets: [], home: null },
  policy: DEFAULT_CACHE_POLICY,
};
