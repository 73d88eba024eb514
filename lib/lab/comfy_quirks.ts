/** What can go wrong with ComfyUI on purpose. Change it at any time. */
export interface ComfyQuirks {
  /** A `/free` that comes while the worker collects garbage is answered and forgotten. As the real one: true. */
  losesWakeUps: boolean;
}

export function usualComfy(): ComfyQuirks {
  return { losesWakeUps: true };
}
