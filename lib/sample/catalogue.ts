/**
 * The catalogue: every model file of this machine, whose it is, and where the page cache may be asked to read. Looked at
 * again every few seconds by the times of folders; no tree is walked for that.
 */
import type {
  Catalogue,
  CatalogueEntry,
  CataloguePlace,
  CatalogueProblem,
  Files,
  ModelFile,
} from "../model/catalogue.ts";
import type { Clock, Proc, Timer } from "../model/ports.ts";
import type { ProcessId } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import { ComfyFolderPlaces } from "./comfy_places.ts";
import type { ModelKind } from "./comfy_layout.ts";
import { type FolderModel, type FoldersReading, ModelFolders } from "./model_folders.ts";
import { type FoundFile, OllamaStore, type StoreModel, type StoreReading } from "./ollama_store.ts";
import { isInside, refuseRoot } from "./paths.ts";
import { startPoller } from "./poller.ts";
import { findStores, storesOfUnit } from "./store_places.ts";

/** Half of what a new or deleted model may take to show (SPEC 3.1). */
const ROUND_MS = 5_000;
/** A unit file changes with an installation. */
const UNIT_MS = 60_000;

/** What the owner says about places. */
export interface CatalogueSettings {
  readonly ollamaStores: readonly string[];
  readonly comfyFolders: readonly string[];
  readonly comfyExtraFiles: readonly string[];
  /** Further folders that links in model folders may lead to. */
  readonly linkTargets: readonly string[];
  readonly home: string | null;
}

/** What is known of the servers at this moment; nothing of one on another host. */
export interface CatalogueHints {
  readonly ollamaServer: ProcessId | null;
  readonly runners: readonly ProcessId[];
  readonly comfyServer: ProcessId | null;
  readonly isComfyOnline: boolean;
}

export interface CatalogueOptions {
  readonly clock: Clock;
  readonly files: Files;
  readonly proc: Proc;
  readonly settings: CatalogueSettings;
  readonly hints: () => CatalogueHints;
  /** ComfyUI's own word on its folders; empty when it doesn't say. */
  readonly askFolders: (signal: AbortSignal) => Promise<readonly ModelKind[]>;
}

export interface CatalogueWatch extends Timer {
  /** Null before the first round. */
  latest(): Catalogue | null;
  /** Looks again now. */
  refresh(): void;
  /** What the last round threw, or null. */
  readonly crash: string | null;
}

/** Watches until stopped. Starts at once. */
export function watchCatalogue(options: CatalogueOptions): CatalogueWatch {
  const reader = new CatalogueReader(options);
  const poller = startPoller({
    clock: options.clock,
    work: (signal) => reader.read(signal),
    periodMs: () => ROUND_MS,
  });
  return {
    latest: () => reader.latest,
    refresh: () => poller.poke(),
    stop: () => poller.stop(),
    get crash() {
      return poller.crash;
    },
  };
}

class CatalogueReader {
  readonly #options: CatalogueOptions;
  readonly #folders: ModelFolders;
  readonly #comfyPlaces: ComfyFolderPlaces;
  #stores = new Map<string, OllamaStore>();
  #unit: { readonly stores: readonly string[]; readonly atMs: MonotonicMs } | null = null;
  latest: Catalogue | null = null;

  constructor(options: CatalogueOptions) {
    this.#options = options;
    this.#folders = new ModelFolders(options);
    this.#comfyPlaces = new ComfyFolderPlaces(options);
  }

  async read(signal: AbortSignal): Promise<void> {
    const { clock, files, settings } = this.#options;
    const places: CataloguePlace[] = [];
    const stores = await this.#readStores(places);
    const comfy = await this.#comfyPlaces.find(this.#options.hints(), signal);
    places.push(...comfy.places);
    const folders = await this.#folders.read(comfy.kinds);
    const linkTargets: string[] = [];
    for (const path of settings.linkTargets) {
      const real = await files.realPath(path);
      if (real !== null && refuseRoot(real) === null) linkTargets.push(real);
    }
    if (signal.aborted) return;
    const found = join({ stores, folders, linkTargets });
    const before = this.latest?.blobsByDigest;
    const isSame = before !== undefined && JSON.stringify(before) === JSON.stringify(found.blobsByDigest);
    this.latest = {
      ...found,
      // Whoever compares by identity sees that nothing was learned.
      blobsByDigest: isSame ? before : found.blobsByDigest,
      places,
      problems: [...found.problems, ...comfy.problems],
      readAtMs: clock.monotonicMs(),
    };
  }

  async #readStores(places: CataloguePlace[]): Promise<readonly StoreReading[]> {
    const { files, proc, settings, hints } = this.#options;
    const { ollamaServer, runners } = hints();
    const unit = await this.#readUnit();
    const query = { configured: settings.ollamaStores, home: settings.home, server: ollamaServer, runners, unit };
    const stores = new Map<string, OllamaStore>();
    const readings: StoreReading[] = [];
    for (const { path, origin } of findStores(query, proc)) {
      const realPath = await files.realPath(path);
      if (realPath !== null && stores.has(realPath)) continue;
      const refused = realPath === null ? "there is no such folder, or it isn't ours to see" : refuseRoot(realPath);
      if (realPath === null || refused !== null) {
        // The usual places are only tried.
        if (!origin.startsWith("the usual place")) places.push({ source: "ollama", path, origin, problem: refused });
        continue;
      }
      const store = this.#stores.get(realPath) ?? new OllamaStore(realPath, this.#options);
      stores.set(realPath, store);
      const reading = await store.read();
      const problem = reading.root === null ? "it has no blobs: nothing was pulled into it yet" : null;
      places.push({ source: "ollama", path: realPath, origin, problem });
      readings.push(reading);
    }
    this.#stores = stores;
    return readings;
  }

  async #readUnit(): Promise<readonly string[]> {
    const nowMs = this.#options.clock.monotonicMs();
    if (this.#unit === null || nowMs - this.#unit.atMs >= UNIT_MS) {
      this.#unit = { stores: await storesOfUnit(this.#options.files), atMs: nowMs };
    }
    return this.#unit.stores;
  }
}

type Joined = Omit<Catalogue, "places" | "readAtMs">;

/** Puts the readings together. A file counts once, and only if its real path lies inside one of the roots. */
function join(
  { stores, folders, linkTargets }: {
    readonly stores: readonly StoreReading[];
    readonly folders: FoldersReading;
    readonly linkTargets: readonly string[];
  },
): Joined {
  const blobRoots = stores.flatMap(({ root }) => root === null || refuseRoot(root) !== null ? [] : [root]);
  const roots = [...new Set([...blobRoots, ...folders.roots, ...linkTargets])];
  const files = new Map<string, ModelFile>();
  const firstPaths = new Map<string, string>();
  const take = ({ path: named, realPath, facts: { id, sizeBytes, modifiedAtMs } }: FoundFile): Taken => {
    if (!roots.some((root) => isInside(realPath, root))) {
      const why = `${named} leads to ${realPath}, outside of every model folder`;
      return { path: null, why: `${why}: name that folder under warm.roots to allow it` };
    }
    // A second name of the same file (a hard link). Some file systems give an id twice, but not with all else the same.
    const identity = `${id} ${sizeBytes} ${modifiedAtMs}`;
    const path = firstPaths.get(identity) ?? realPath;
    firstPaths.set(identity, path);
    files.set(path, { path, sizeBytes, modifiedAtMs, id });
    return { path, why: null };
  };
  const problems: CatalogueProblem[] = [...stores.flatMap((store) => store.problems), ...folders.problems];
  const entries: CatalogueEntry[] = [];
  const names = new Set<string>();
  const blobsByDigest: Record<string, readonly string[]> = {};
  for (const model of stores.flatMap((store) => store.models)) {
    const key = model.name.toLowerCase();
    entries.push({ ...ollamaEntry(model, take), isShadowed: names.has(key) });
    names.add(key);
    blobsByDigest[model.digest] = model.blobs;
  }
  for (const model of folders.models) entries.push(comfyEntry(model, take));
  for (const { name, problem } of entries) if (problem !== null) problems.push({ path: name, problem });
  return { entries, files: [...files.values()], roots, problems, blobsByDigest };
}

/** The one path under which a file counts, or why it doesn't. */
type Taken = { readonly path: string; readonly why: null } | { readonly path: null; readonly why: string };
type Take = (file: FoundFile) => Taken;

function ollamaEntry(model: StoreModel, take: Take): CatalogueEntry {
  const taken = model.files.map(take);
  const whys = taken.flatMap(({ why }) => why ?? []);
  return {
    source: "ollama",
    name: model.name,
    folder: null,
    digest: model.digest,
    files: [...new Set(taken.flatMap(({ path }) => path ?? []))],
    sizeBytes: model.sizeBytes,
    isShadowed: false,
    problem: model.problem ?? whys[0] ?? null,
  };
}

function comfyEntry({ kind, name, file, problem }: FolderModel, take: Take): CatalogueEntry {
  const taken = file === null ? null : take(file);
  return {
    source: "comfyui",
    name,
    folder: kind,
    digest: null,
    files: taken?.path == null ? [] : [taken.path],
    sizeBytes: file?.facts.sizeBytes ?? null,
    isShadowed: false,
    problem: problem ?? taken?.why ?? null,
  };
}
