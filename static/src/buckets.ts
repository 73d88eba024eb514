/** The six shares of the card, in the order in which bars and chart stack them: what can't move first, then tenants. */
export const BUCKETS = [
  { key: "unaccounted", label: "Unaccounted", note: "Driver contexts and memory that no process accounts for" },
  { key: "desktop", label: "Desktop", note: "Display server and compositor" },
  { key: "unmanaged", label: "Unmanaged", note: "Other programs: HyperSwap can never give this memory back" },
  { key: "ollama", label: "Ollama", note: "Resident models and their runners" },
  { key: "comfy", label: "ComfyUI", note: "Checkpoints, latents and the CUDA context" },
  { key: "free", label: "Free", note: "Room for the next model" },
] as const;

export type BucketKey = typeof BUCKETS[number]["key"];

/** The name of a bucket as the service writes it; unknown words are shown as they come. */
export function bucketLabel(key: string): string {
  return BUCKETS.find((bucket) => bucket.key === key)?.label ?? key;
}
