/** What the measuring Worker and its client say to each other. */
import type { Residency } from "../model/page_cache.ts";
import type { ResidencyQuestion } from "../sample/residency.ts";

export type ToMeasureWorker =
  | {
    readonly kind: "measure";
    readonly seq: number;
    readonly paths: readonly string[];
    readonly question: ResidencyQuestion;
    /** One 32-bit word: not 0 once nobody waits any more. */
    readonly givenUp: SharedArrayBuffer;
  }
  | { readonly kind: "unlock"; readonly seq: number; readonly address: bigint; readonly lengthBytes: number };

export type FromMeasureWorker =
  /** Some more, in the order of the question's paths. */
  | { readonly kind: "found"; readonly seq: number; readonly residencies: readonly Residency[] }
  | { readonly kind: "unlocked"; readonly seq: number }
  | { readonly kind: "refused"; readonly seq: number; readonly message: string };
