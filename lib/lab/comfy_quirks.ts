/** What can go wrong with ComfyUI on purpose. Change it at any time. */
export interface ComfyQuirks {
  /** A `/free` that comes while the worker collects garbage is answered and forgotten. As the real one: true. */
  losesWakeUps: boolean;
  /**
   * A prompt's last frames come only after the collection that follows it: a race in the real one, lost by 19 of 40 short
   * prompts. Default false.
   */
  endsUnheard: boolean;
  /** From the status frame to the first growth of its memory; null = as the profile says. */
  firstGrowthMs: number | null;
}

export function usualComfy(): ComfyQuirks {
  return { losesWakeUps: true, endsUnheard: false, firstGrowthMs: null };
}
