/** What the warm Worker and its client say to each other. */
import type { FailureCode } from "../model/failure.ts";
import type { WarmEnd, WarmMethod, WarmPace } from "../model/page_cache.ts";
import type { Bytes } from "../model/units.ts";

/** 32-bit words of the shared block. */
export const WORD = { cancel: 0, pace: 1, method: 2 } as const;
/** 64-bit words behind them. */
export const COUNT = { doneBytes: 0, sizeBytes: 1, heldBackMs: 2 } as const;

const COUNTS_AT = 16;
export const SHARED_BYTES = COUNTS_AT + 8 * Object.keys(COUNT).length;

/** In the order of their numbers in the shared block. */
export const PACES = ["full", "polite", "fixed"] as const satisfies readonly WarmPace[];
export const METHODS = ["splice", "read", "fault"] as const satisfies readonly WarmMethod[];

/** The block through which a busy Worker is told to stop, and tells how far it is: it reads no messages meanwhile. */
export class SharedProgress {
  readonly words: Int32Array<SharedArrayBuffer>;
  readonly #counts: BigInt64Array<SharedArrayBuffer>;
  constructor(readonly buffer: SharedArrayBuffer = new SharedArrayBuffer(SHARED_BYTES)) {
    this.words = new Int32Array(buffer, 0, COUNTS_AT / 4);
    this.#counts = new BigInt64Array(buffer, COUNTS_AT);
  }

  get isCancelled(): boolean {
    return Atomics.load(this.words, WORD.cancel) !== 0;
  }

  /** Ends a wait of the Worker at once. */
  cancel(): void {
    Atomics.store(this.words, WORD.cancel, 1);
    Atomics.notify(this.words, WORD.cancel);
  }

  /** Waits, in a Worker, for that long or until it is cancelled. */
  wait(ms: number): void {
    if (ms > 0) Atomics.wait(this.words, WORD.cancel, 0, ms);
  }

  get(count: keyof typeof COUNT): number {
    return Number(Atomics.load(this.#counts, COUNT[count]));
  }

  set(count: keyof typeof COUNT, value: number): void {
    Atomics.store(this.#counts, COUNT[count], BigInt(Math.round(value)));
  }

  get pace(): WarmPace {
    return PACES[Atomics.load(this.words, WORD.pace)] ?? "full";
  }

  set pace(pace: WarmPace) {
    Atomics.store(this.words, WORD.pace, PACES.indexOf(pace));
  }

  get method(): WarmMethod {
    return METHODS[Atomics.load(this.words, WORD.method)] ?? "splice";
  }

  set method(method: WarmMethod) {
    Atomics.store(this.words, WORD.method, METHODS.indexOf(method));
  }
}

export interface WarmOrder {
  readonly seq: number;
  readonly path: string;
  readonly roots: readonly string[];
  readonly bytesPerS: "auto" | number;
  readonly reserveBytes: Bytes;
  /** Found before, so that only the rest has to find room. */
  readonly residentBytes: Bytes;
  /** Also lock what was read. */
  readonly isLocking: boolean;
  readonly shared: SharedArrayBuffer;
  readonly procRoot: string;
  readonly sysRoot: string;
}

export interface WarmResult {
  readonly end: WarmEnd;
  readonly reason: string | null;
  readonly method: WarmMethod;
  readonly sizeBytes: Bytes;
  readonly doneBytes: Bytes;
  /** Null where the kernel keeps no account: on FUSE and on network file systems. */
  readonly diskBytes: Bytes | null;
  readonly durationMs: number;
  readonly heldBackMs: number;
  /** MemAvailable before the reading and after it; null where it was not asked. */
  readonly availableBeforeBytes: Bytes | null;
  readonly availableAfterBytes: Bytes | null;
  /** Locked memory, to be unmapped by whoever unpins; null where nothing was locked. */
  readonly locked: { readonly address: bigint; readonly lengthBytes: Bytes } | null;
}

export interface FailureParts {
  readonly code: FailureCode;
  readonly message: string;
  readonly hint: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
}

export type FromWarmWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "ended"; readonly seq: number; readonly result: WarmResult }
  /** A refusal, or (failure null) a defect. */
  | { readonly kind: "refused"; readonly seq: number; readonly failure: FailureParts | null; readonly message: string };
