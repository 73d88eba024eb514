import type { Random } from "./random.ts";

/** Lowest and highest milliseconds; a scene draws between them. */
export type Span = readonly [low: number, high: number];

/**
 * How quickly the simulated software is: `desktop` as measured on an RTX 4080 SUPER (the unload reply takes 63 ms, the
 * driver 77 ms more), `h200` as on an H200 (1.3 ms, and 200–260 ms more).
 */
export type Profile = "desktop" | "h200";

export interface Timing {
  readonly unloadReplyMs: Span;
  /** From that reply until the driver has the memory back. */
  readonly releaseMs: Span;
  /** Before the first weights are read: process, context, graph. */
  readonly loadStartMs: number;
  /** GB/s of a load whose weights are in the page cache, and on disk. */
  readonly warmGbPerS: number;
  readonly coldGbPerS: number;
  /** ComfyUI's first growth after the status frame. */
  readonly comfyWarmMs: Span;
  readonly comfyColdMs: Span;
  /** Weights on their way to the card, from RAM and from disk (mapped files are read ahead, so faster than above). */
  readonly comfyUploadGbPerS: number;
  readonly comfyDiskGbPerS: number;
  /** From acting on `/free` to the fall: when it was quiet, and right after full runs; garbage collection included. */
  readonly freeQuietMs: Span;
  readonly freeAfterRunMs: Span;
  readonly stepMs: number;
}

const COMFY = {
  comfyWarmMs: [47, 77],
  comfyColdMs: [800, 2_000],
  freeQuietMs: [1_100, 1_700],
  freeAfterRunMs: [3_500, 4_400],
} as const satisfies Partial<Timing>;

/** 12.87 GB took 4.901 s warm and 34.267 s cold on the desktop; 9.7 GB took 2.2–2.8 s warm on the H200. */
export const TIMINGS: Readonly<Record<Profile, Timing>> = {
  desktop: {
    ...COMFY,
    unloadReplyMs: [61, 65],
    releaseMs: [74, 80],
    loadStartMs: 420,
    warmGbPerS: 2.9,
    coldGbPerS: 0.38,
    comfyUploadGbPerS: 6,
    comfyDiskGbPerS: 1.1,
    stepMs: 152,
  },
  h200: {
    ...COMFY,
    unloadReplyMs: [1.2, 1.9],
    releaseMs: [202, 246],
    loadStartMs: 450,
    warmGbPerS: 5,
    coldGbPerS: 1.6,
    comfyUploadGbPerS: 12,
    comfyDiskGbPerS: 1.6,
    stepMs: 90,
  },
};

export function draw(span: Span, random: Random): number {
  return random.between(span[0], span[1]);
}
