import { type Bench, type Figure, quantile } from "../tasks/figures.ts";
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import type { MeasuredResidency, PageCache, Residency } from "../../lib/model/page_cache.ts";
import { MIB } from "../../lib/model/units.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { connectPageCache } from "../../lib/workers/page_cache_client.ts";
import { cachedFile, PAGE } from "../sample/cached_file.ts";
import { stranger, whyNoStranger } from "../sample/stranger.ts";
import { has, ran } from "./page_cache_file.ts";

const SIZE_BYTES = 256 * MIB;
const TRIALS = 40;

/** A folder seen through a FUSE file system that drops a file's pages whenever somebody opens it, as most do. */
async function onFuse<T>(folder: string, run: (mounted: string) => Promise<T>): Promise<T | string> {
  if (!await has("bindfs")) return "bindfs is not installed";
  const mounted = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "hyperswap_fuse_" });
  await Deno.chmod(mounted, 0o755);
  try {
    await ran(`bindfs ${folder} ${mounted}`);
  } catch (error) {
    await Deno.remove(mounted);
    return error instanceof Error ? error.message : String(error);
  }
  try {
    return await run(mounted);
  } finally {
    // Lazily: the service keeps its descriptor on purpose, until its Worker has gone.
    await ran(`umount --lazy ${mounted}`);
    await Deno.remove(mounted);
  }
}

type Look = () => Promise<Residency | undefined>;

async function measured(look: Look): Promise<MeasuredResidency> {
  const found = await look();
  if (found?.kind !== "measured") throw new Error(`Cannot bench: ${JSON.stringify(found)}`);
  return found;
}

/** Loads a random part through a descriptor of its own, and asks how much is there. */
async function trials(path: string, who: string, look: Look): Promise<Figure[]> {
  using libc = openLibc();
  using pages = openPageCalls();
  // Whoever looks has opened it first: whoever opens it later drops what is there.
  let seen = await measured(look);
  const fd = libc.open(path, { flags: ["read"] });
  pages.advise(fd, "random");
  const all = SIZE_BYTES / PAGE;
  const errors: number[] = [];
  let covered = 0;
  for (let trial = 0; trial < TRIALS; trial++) {
    pages.advise(fd, "dontNeed");
    const [from, count] = [Math.floor(Math.random() * all / 2), Math.floor(Math.random() * all / 2)];
    for (let page = from; page < from + count; page += 4) pages.readByte(fd, { offset: page * PAGE, isWaiting: true });
    const truth = pages.countByMincore(fd, SIZE_BYTES) / all;
    seen = await measured(look);
    errors.push(Math.abs(seen.share - truth) * 100);
    if (seen.low <= truth && truth <= seen.high) covered++;
  }
  libc.close(fd);
  const note = `${who}: ${seen.method}, ${seen.samples ?? "all"} pages`;
  const [name, n] = ["fuse: error of the share", TRIALS];
  return [
    { name, value: quantile(errors, 0.95), unit: "points at p95", bar: { atMost: 3.5 }, n, note },
    {
      name: "fuse: truth inside the interval",
      value: covered / n * 100,
      unit: "%",
      bar: { atLeast: 97 },
      n,
      note,
    },
  ];
}

/** Read into memory by us; a second look says what is left once somebody else has opened it. */
async function warmed(cache: PageCache, path: string, root: string): Promise<Figure[]> {
  const outcome = await cache.warm(path, { roots: [root], bytesPerS: "auto", reserveBytes: 64 * MIB });
  const share = ({ kind, ...rest }: Residency) => kind === "measured" && "share" in rest ? rest.share * 100 : null;
  const after = share(outcome.after);
  (await Deno.open(path)).close();
  const [later] = await cache.measure([path], { roots: [root] });
  const left = later === undefined ? null : share(later);
  const about = { unit: "%", n: 1, note: outcome.method };
  return [
    { name: "fuse: resident after a warm", value: after, bar: { atLeast: 99 }, ...about },
    { name: "fuse: of it left once somebody opens the file", value: left, bar: null, ...about },
  ];
}

export const bench: Bench = {
  name: "page_cache_fuse",
  about: "a file on a real FUSE mount measured while parts of it are resident, and warmed",
  async measure() {
    await using file = await cachedFile({ sizeBytes: SIZE_BYTES });
    const figures = await onFuse(file.folder, async (mounted) => {
      const cache = connectPageCache({ clock: systemClock() });
      try {
        const path = `${mounted}/blob`;
        const question = { roots: [mounted] };
        const found = await trials(path, "owner", async () => (await cache.measure([path], question))[0]);
        if (whyNoStranger() === null) {
          using nobody = await stranger();
          const asked = { path, question: { ...question, purpose: "figure" as const }, times: 1 };
          found.push(...await trials(path, "stranger", async () => (await nobody.ask(asked))[0]));
        }
        found.push(...await warmed(cache, path, mounted));
        return found;
      } finally {
        await cache.close();
      }
    });
    if (typeof figures !== "string") return figures;
    return [{ name: "fuse", value: null, unit: "points at p95", bar: { atMost: 3.5 }, n: 0, note: figures }];
  },
};
