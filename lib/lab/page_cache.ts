import type { Bytes } from "../model/units.ts";

interface Cached {
  readonly sizeBytes: Bytes;
  residentBytes: Bytes;
}

/**
 * Which files' pages are in memory. Reading a file brings all of it in and pushes the longest unused out once the budget
 * is full, which is what makes one load warm and the next cold.
 */
export class PageCache {
  readonly #budgetBytes: Bytes;
  readonly #onChange: (cachedBytes: Bytes) => void;
  /** Least recently used first. */
  readonly #files = new Map<string, Cached>();

  constructor(options: { readonly budgetBytes: Bytes; readonly onChange?: (cachedBytes: Bytes) => void }) {
    this.#budgetBytes = options.budgetBytes;
    this.#onChange = options.onChange ?? (() => {});
  }

  get cachedBytes(): Bytes {
    let sum = 0;
    for (const file of this.#files.values()) sum += file.residentBytes;
    return sum;
  }

  residentBytes(file: string): Bytes {
    return this.#files.get(file)?.residentBytes ?? 0;
  }

  /** The share of a file that is in memory, 0–1. */
  residency(file: string): number {
    const cached = this.#files.get(file);
    return cached === undefined || cached.sizeBytes === 0 ? 0 : cached.residentBytes / cached.sizeBytes;
  }

  /** Reads a whole file: afterwards all of it is resident. */
  read(file: string, sizeBytes: Bytes): void {
    this.set(file, { sizeBytes, share: 1 });
    let excess = this.cachedBytes - this.#budgetBytes;
    for (const [name, cached] of this.#files) {
      if (excess <= 0 || name === file) break;
      const dropped = Math.min(excess, cached.residentBytes);
      cached.residentBytes -= dropped;
      excess -= dropped;
    }
    this.#onChange(this.cachedBytes);
  }

  /** Makes that share of a file resident, as a warmed or an evicted file is. */
  set(file: string, { sizeBytes, share }: { readonly sizeBytes: Bytes; readonly share: number }): void {
    this.#files.delete(file);
    this.#files.set(file, { sizeBytes, residentBytes: Math.round(sizeBytes * share) });
    this.#onChange(this.cachedBytes);
  }
}
