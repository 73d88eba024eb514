/** One card's library → facts, one second's reading, and the quick reading of a barrier. */
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";

/** Which card is arbitrated. The uuid wins; an index isn't stable over reboots. */
export interface GpuChoice {
  readonly uuid: string | null;
  readonly index: number | null;
}

/**
 * Reads one card. Synchronous and blocking: it lives in the nvml Worker. Every call throws GpuUnavailable when the card
 * can't be read at all; a figure that can't be had is null.
 */
export interface GpuReader {
  facts(): GpuFacts;
  /** Cheap figures are fresh, slow ones keep their last value until their turn comes. */
  read(): GpuReading;
  /** Device bytes and processes only; SM utilisation every 200 ms. Nothing slow. */
  readBarrier(): BarrierReading;
}
