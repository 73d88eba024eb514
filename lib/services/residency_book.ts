/** The newest residency of every model file, and when it is worth measuring again. */
import type { CacheTotals, LoadResidency } from "../model/cache.ts";
import type { Catalogue, ModelFile } from "../model/catalogue.ts";
import type { PageCache, Residency } from "../model/page_cache.ts";
import type { Clock } from "../model/ports.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";

/** A count of pages costs microseconds and disturbs nothing. */
export const COUNTED_MAX_AGE_MS = 5_000;
/** A sample reads pages that weren't there: not oftener than anybody needs it. */
export const SAMPLED_MAX_AGE_MS = 60_000;
/** Nobody has asked: enough for the dashboard's sums. */
export const BACKGROUND_COUNTED_MS = 30_000;
export const BACKGROUND_SAMPLED_MS = 900_000;

export interface MaxAges {
  readonly countedMs: number;
  readonly sampledMs: number;
}

export class ResidencyBook {
  readonly #pageCache: PageCache;
  readonly #clock: Clock;
  readonly #figures = new Map<string, Residency>();
  #measuring: Promise<void> = Promise.resolve();
  /** Goes up with every figure. */
  #version = 0;
  #summed: { readonly key: readonly unknown[]; readonly totals: CacheTotals | null } | null = null;

  constructor({ pageCache, clock }: { readonly pageCache: PageCache; readonly clock: Clock }) {
    this.#pageCache = pageCache;
    this.#clock = clock;
  }

  get(path: string): Residency | null {
    return this.#figures.get(path) ?? null;
  }

  get all(): ReadonlyMap<string, Residency> {
    return this.#figures;
  }

  ageMs(path: string): number | null {
    const figure = this.#figures.get(path);
    return figure === undefined ? null : this.#clock.monotonicMs() - figure.atMs;
  }

  /** What a warm measured after itself. */
  note(path: string, residency: Residency): void {
    this.#version += 1;
    this.#figures.set(path, residency);
  }

  /** Measures what is older than that. Two that ask at once wait for one another, and the second finds it done. */
  async refresh(
    { files, roots }: { readonly files: readonly ModelFile[]; readonly roots: Catalogue["roots"] },
    { ages, signal }: { readonly ages: MaxAges; readonly signal: AbortSignal },
  ): Promise<void> {
    const before = this.#measuring;
    const work = before.then(() => this.#measure({ files, roots, ages, signal }));
    // The next one waits for this one to end, however it ends.
    this.#measuring = work.catch(() => {});
    await work;
  }

  /** Forgets files that are gone. */
  keepOnly(files: readonly ModelFile[]): void {
    const known = new Set(files.map(({ path }) => path));
    for (const path of this.#figures.keys()) if (!known.has(path)) this.#figures.delete(path);
  }

  async #measure(work: {
    readonly files: readonly ModelFile[];
    readonly roots: readonly string[];
    readonly ages: MaxAges;
    readonly signal: AbortSignal;
  }): Promise<void> {
    const { files, roots, ages, signal } = work;
    signal.throwIfAborted();
    const due = files.filter((file) => this.#isDue(file, ages)).map(({ path }) => path);
    if (due.length === 0) return;
    const figures = await this.#pageCache.measure(due, { roots, signal });
    for (const [index, figure] of figures.entries()) {
      const path = due[index];
      if (path !== undefined) this.note(path, figure);
    }
  }

  #isDue({ path, sizeBytes }: ModelFile, ages: MaxAges): boolean {
    const figure = this.#figures.get(path);
    if (figure === undefined || (figure.sizeBytes ?? sizeBytes) !== sizeBytes) return true;
    const isCounted = figure.kind === "measured" && figure.isExact;
    return this.#clock.monotonicMs() - figure.atMs > (isCounted ? ages.countedMs : ages.sampledMs);
  }

  /** Sums over what was measured; the same object until a figure changes, so that nothing is told twice. */
  totals(files: readonly ModelFile[], pinnedBytes: Bytes): CacheTotals | null {
    const bytes = files.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const key = [this.#version, files.length, bytes, pinnedBytes];
    if (this.#summed?.key.every((part, index) => part === key[index]) !== true) {
      this.#summed = { key, totals: this.#sum(files, pinnedBytes) };
    }
    return this.#summed.totals;
  }

  #sum(files: readonly ModelFile[], pinnedBytes: Bytes): CacheTotals | null {
    let [measured, unmeasurable, bytes, measuredBytes, residentBytes] = [0, 0, 0, 0, 0];
    let oldest: MonotonicMs | null = null;
    for (const { path, sizeBytes } of files) {
      bytes += sizeBytes;
      const figure = this.#figures.get(path);
      if (figure === undefined) continue;
      if (figure.kind === "unmeasurable") {
        unmeasurable += 1;
        continue;
      }
      measured += 1;
      measuredBytes += figure.sizeBytes;
      residentBytes += figure.residentBytes;
      oldest = Math.min(oldest ?? figure.atMs, figure.atMs);
    }
    if (measured + unmeasurable === 0 && files.length > 0) return null;
    return {
      files: files.length,
      measured,
      unmeasurable,
      bytes,
      measuredBytes,
      residentBytes,
      pinnedBytes,
      measuredAtMs: oldest === null ? null : oldest + this.#clock.wallMs() - this.#clock.monotonicMs(),
    };
  }
}

/** All of a model's files together; null when one of them is unknown. */
export function residencyOf(figures: readonly (Residency | null)[]): LoadResidency | null {
  const measured = figures.flatMap((figure) => figure?.kind === "measured" ? [figure] : []);
  if (measured.length === 0 || measured.length < figures.length) return null;
  const bytes = measured.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
  const resident = measured.reduce((sum, { residentBytes }) => sum + residentBytes, 0);
  return {
    pct: bytes === 0 ? 100 : (resident / bytes) * 100,
    isExact: measured.every(({ isExact }) => isExact),
    method: [...new Set(measured.map(({ method }) => method))].join(", "),
  };
}
