/** Numbers as people read them. Every function takes a known value; the unknown is shown by parts/value.tsx. */

/** What stands for a value that isn't known. */
export const UNKNOWN = "–";

/** A fixed number of decimals, without a sign on zero. */
export function fixed(value: number, digits = 0): string {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

/** A duration of work: "214 ms", "4.90 s", "2 min 5 s". */
export function duration(ms: number): string {
  const size = Math.abs(ms);
  if (size < 10) return `${fixed(ms, 1)} ms`;
  if (size < 1_000) return `${fixed(ms)} ms`;
  if (size < 10_000) return `${fixed(ms / 1_000, 2)} s`;
  if (size < 60_000) return `${fixed(ms / 1_000, 1)} s`;
  const seconds = Math.round(ms / 1_000);
  return `${Math.trunc(seconds / 60)} min ${Math.abs(seconds % 60)} s`;
}

/** How long something has been so, coarse: "4 s", "3 min", "2 h 10 min". */
export function span(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1_000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} days`;
}

/** A signed duration: "+182 ms", "−160 ms" (with a true minus sign, so that columns line up). */
export function signedMs(ms: number): string {
  const sign = ms < 0 ? "\u2212" : "+";
  return `${sign}${duration(Math.abs(ms))}`;
}

/** Wall-clock time of day in the reader's zone, 24 h. */
export function clockTime(date: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

/** "1 model", "3 models". */
export function count(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}

/** Names that are written in their own way wherever they stand. */
const PROPER: Readonly<Record<string, string>> = {
  comfy: "ComfyUI",
  comfyui: "ComfyUI",
  gpu: "GPU",
  nvml: "NVML",
  ollama: "Ollama",
  vram: "VRAM",
};

/** A lever in words, without the unit that its values carry. */
export function leverName(lever: string): string {
  return words(lever).replace(/ (w|mhz)$/, "");
}

/** `free-vram` → "free VRAM": identifiers as words. */
export function words(identifier: string): string {
  return identifier.split(/[_-]/).map((word) => PROPER[word.toLowerCase()] ?? word).join(" ");
}

/** Text from outside, without what would turn round how it reads: a name must not pretend to end in another way. */
export function inReadingOrder(text: string): string {
  return text.replaceAll(/\p{Bidi_Control}/gu, "\ufffd");
}
