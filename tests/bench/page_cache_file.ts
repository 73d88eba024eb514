/** Large files for the page cache's benches, and the tools they are compared with. */
import { type CachedFile, cachedFile } from "../sample/cached_file.ts";
import { connectPageCache } from "../../lib/workers/page_cache_client.ts";
import type { PageCache, WarmCall, WarmOutcome } from "../../lib/model/page_cache.ts";
import { GIB, MIB } from "../../lib/model/units.ts";
import { systemClock } from "../../lib/system/clock.ts";

export interface WarmBench extends AsyncDisposable {
  readonly file: CachedFile;
  readonly cache: PageCache;
  warm(given?: Partial<WarmCall>): Promise<WarmOutcome>;
}

/** A file of noise, and a page cache that may read it. */
export async function warmBench(sizeBytes: number, dir?: string): Promise<WarmBench> {
  const file = await cachedFile({ sizeBytes, ...(dir === undefined ? {} : { dir }) });
  const cache = connectPageCache({ clock: systemClock() });
  const warm = (given: Partial<WarmCall> = {}) =>
    cache.warm(file.path, { roots: [file.folder], bytesPerS: "auto", reserveBytes: 256 * MIB, ...given });
  // The Workers start and compile outside of what is measured.
  await warm();
  return {
    file,
    cache,
    warm,
    [Symbol.asyncDispose]: async () => {
      await cache.close();
      await file[Symbol.asyncDispose]();
    },
  };
}

export interface Ran {
  readonly ms: number;
  readonly cpuMs: number;
  readonly output: string;
}

/** Runs a shell line; its CPU time is that of the shell's children. */
export async function ran(line: string): Promise<Ran> {
  const script = `TIMEFORMAT='%U %S'; time { ${line} ; }`;
  const beganMs = performance.now();
  const { success, stdout, stderr } = await new Deno.Command("bash", { args: ["-c", script] }).output();
  const ms = performance.now() - beganMs;
  const errors = new TextDecoder().decode(stderr);
  if (!success) throw new Error(`Cannot run ${line}: ${errors}`);
  const [user = 0, system = 0] = (errors.trim().split("\n").at(-1) ?? "").split(" ").map(Number);
  return { ms, cpuMs: (user + system) * 1000, output: new TextDecoder().decode(stdout) };
}

/** Whether a program is installed. */
export async function has(program: string): Promise<boolean> {
  return await ran(`command -v ${program}`).then(() => true, () => false);
}

export interface Foreground {
  readonly iops: number;
  readonly p99Us: number;
}

/** A foreground reader: 4 KiB at random, past the page cache, one at a time. */
export async function foreground(path: string, seconds: number): Promise<Foreground> {
  const { output } = await ran(
    `fio --name=fg --filename=${path} --readonly --rw=randread --bs=4k --direct=1 --ioengine=psync ` +
      `--time_based --runtime=${seconds} --output-format=json`,
  );
  const read = JSON.parse(output.slice(output.indexOf("{"))).jobs[0].read;
  return { iops: read.iops, p99Us: read.clat_ns.percentile["99.000000"] / 1000 };
}

/** Keeps warming until told to stop, dropping the file each time it is through. */
export async function warmOn(given: WarmBench, signal: AbortSignal): Promise<number> {
  let bytes = 0;
  while (!signal.aborted) {
    given.file.evict();
    bytes += (await given.warm({ signal }).catch(() => null))?.doneBytes ?? 0;
  }
  return bytes;
}

export const FILE_BYTES = 2 * GIB;
