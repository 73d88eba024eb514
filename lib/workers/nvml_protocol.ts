/** What the nvml Worker and its client say to each other. Everything here survives structured cloning. */
import { GpuUnavailable } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import type { GpuChoice } from "../sample/gpu_facts.ts";

/** Where the card comes from: the driver's library, or a simulated card's table. */
export type GpuSource =
  | {
    readonly kind: "library";
    /** Files or sonames in search order; null = the usual places. */
    readonly paths: readonly string[] | null;
  }
  | { readonly kind: "simulated"; readonly table: SharedArrayBuffer };

export interface NvmlConfig {
  readonly source: GpuSource;
  readonly choice: GpuChoice;
  readonly sysRoot: string;
  readonly control: SharedArrayBuffer;
  /** The client's monotonic clock as it sends this, so that both threads stamp alike. */
  readonly monotonicMs: number;
}

/**
 * Words of the control buffer, an Int32Array. A Worker that streams never returns to its event loop by itself, so it
 * learns from here that it should: that the stream is over, or that something was asked.
 */
export const CONTROL = {
  /** Id of the wanted stream; 0 = none. */
  stream: 0,
  /** Questions posted so far. */
  asked: 1,
} as const;

/** Bytes of the control buffer. */
export const CONTROL_BYTES = 8;

export type ToWorker =
  | { readonly kind: "configure"; readonly config: NvmlConfig }
  | { readonly kind: "ask"; readonly id: number; readonly what: "facts" | "read" }
  | { readonly kind: "stream"; readonly id: number }
  | { readonly kind: "close" };

export type FromWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "answer"; readonly id: number; readonly value: GpuFacts | GpuReading }
  | { readonly kind: "refusal"; readonly id: number; readonly failure: GpuFailure }
  | { readonly kind: "reading"; readonly id: number; readonly reading: BarrierReading }
  /** The stream is over: asked for (null), or because the card can't be read any more. */
  | { readonly kind: "streamEnded"; readonly id: number; readonly failure: GpuFailure | null }
  | { readonly kind: "closed" };

/** GpuUnavailable as data: cloning an error loses its class and fields. */
export interface GpuFailure {
  readonly kind: GpuUnavailable["kind"];
  readonly message: string;
  readonly remedy: string;
}

export function toFailure(error: GpuUnavailable): GpuFailure {
  return { kind: error.kind, message: error.message, remedy: error.remedy };
}

export function fromFailure(failure: GpuFailure): GpuUnavailable {
  return new GpuUnavailable(failure.kind, failure.message, failure.remedy);
}
