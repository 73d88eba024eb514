/** Reads a file's bytes into the page cache by whichever method is the quicker on its disk. Blocks its thread. */
import type { FileDrain } from "../../ffi/file_drain.ts";
import type { FileRange, PageCalls } from "../../ffi/page_calls.ts";
import { type ChunkRead, FIRST_METHOD, type MethodState, reduceMethod } from "../decide/warm_method.ts";
import type { WarmMethod } from "../model/page_cache.ts";
import type { Bytes } from "../model/units.ts";
import { HugeReader } from "./huge_reader.ts";

/** What was found of each disk, by its device number; kept from one file to the next. */
export type DiskMethods = Map<string, MethodState>;

export interface WarmReaderParts {
  readonly pages: PageCalls;
  readonly drain: FileDrain;
  readonly methods: DiskMethods;
  readonly file: { readonly fd: number; readonly device: string };
  /** Whether this kernel's huge pages are of a size to be read at a time. */
  readonly canFault: boolean;
}

export class WarmReader {
  readonly #parts: WarmReaderParts;
  readonly #huge: HugeReader | null;
  #method: WarmMethod;

  constructor(parts: WarmReaderParts) {
    this.#parts = parts;
    this.#huge = parts.canFault ? new HugeReader(parts.pages, parts.file.fd) : null;
    this.#method = parts.drain.method;
  }

  /** Of the last bytes. */
  get method(): WarmMethod {
    return this.#method;
  }

  /**
   * Reads the beginning of a range that the file has; 0 where it no longer does. A fault brings in more than it was asked
   * for: beside others exactly that is read.
   */
  read(range: FileRange, { isExact }: { readonly isExact: boolean }): Bytes {
    const { drain, file } = this.#parts;
    const isFaulting = !isExact && this.#state.method === "fault";
    if (!isFaulting) this.release();
    const faulted = isFaulting ? this.#huge?.read(range) ?? null : null;
    const bytes = faulted ?? drain.read(file.fd, range);
    this.#method = faulted === null ? drain.method : "fault";
    return bytes;
  }

  /** After a chunk that nobody was given way in. */
  learn(chunk: Omit<ChunkRead, "method">): void {
    if (this.#huge === null) return;
    const { methods, file } = this.#parts;
    methods.set(file.device, reduceMethod(this.#state, { ...chunk, method: this.#method }));
  }

  /** Lets go of what is mapped: it can't be dropped from memory meanwhile. */
  release(): void {
    this.#huge?.release();
  }

  get #state(): MethodState {
    return this.#parts.methods.get(this.#parts.file.device) ?? FIRST_METHOD;
  }
}
