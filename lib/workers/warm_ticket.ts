/** One warm from being asked for to its end: what is told of it meanwhile. */
import type { WarmPace, WarmProgress } from "../model/page_cache.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { SharedProgress } from "./warm_protocol.ts";

/** The rate that is shown is that of about this long. */
const RATE_MS = 1_500;

export class WarmTicket {
  state: WarmProgress["state"] = "queued";
  #shared: SharedProgress | null = null;
  /** Oldest first. */
  #marks: { readonly atMs: MonotonicMs; readonly doneBytes: Bytes }[] = [];

  constructor(readonly path: string) {}

  begin(shared: SharedProgress, atMs: MonotonicMs): void {
    this.state = "warming";
    this.#shared = shared;
    this.#marks = [{ atMs, doneBytes: 0 }];
  }

  /** The Worker has it. */
  get hasBegun(): boolean {
    return this.#shared !== null;
  }

  /** Notes where it stands; to be called regularly. */
  tick(atMs: MonotonicMs): void {
    this.#marks.push({ atMs, doneBytes: this.doneBytes });
    while (this.#marks.length > 2 && (this.#marks[1]?.atMs ?? atMs) < atMs - RATE_MS) this.#marks.shift();
  }

  cancel(): void {
    this.state = "cancelling";
    this.#shared?.cancel();
  }

  get doneBytes(): Bytes {
    return this.#shared?.get("doneBytes") ?? 0;
  }

  get sizeBytes(): Bytes | null {
    const sizeBytes = this.#shared?.get("sizeBytes") ?? 0;
    return sizeBytes === 0 ? null : sizeBytes;
  }

  progress(ahead: number): WarmProgress {
    const bytesPerS = this.#bytesPerS();
    const { sizeBytes, doneBytes } = this;
    const isKnown = sizeBytes !== null && bytesPerS !== null && bytesPerS > 0;
    return {
      path: this.path,
      state: this.state,
      ahead,
      doneBytes,
      sizeBytes,
      bytesPerS,
      etaMs: isKnown ? Math.round((sizeBytes - doneBytes) / bytesPerS * 1000) : null,
      pace: this.#pace(),
    };
  }

  #pace(): WarmPace | null {
    return this.sizeBytes === null ? null : this.#shared?.pace ?? null;
  }

  #bytesPerS(): number | null {
    const [first, last] = [this.#marks[0], this.#marks.at(-1)];
    if (first === undefined || last === undefined || last.atMs <= first.atMs) return null;
    return Math.round((last.doneBytes - first.doneBytes) / (last.atMs - first.atMs) * 1000);
  }
}
