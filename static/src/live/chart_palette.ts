/** The chart's colours, read from the page's tokens: a canvas knows nothing of custom properties. */
import type { BucketKey } from "../buckets.ts";

export interface Palette {
  readonly text: string;
  readonly line: string;
  readonly cache: string;
  readonly warn: string;
  readonly font: string;
  readonly fill: Readonly<Record<BucketKey, string>>;
}

export function readPalette(element: HTMLElement): Palette {
  const style = getComputedStyle(element);
  const token = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const each = (of: (key: BucketKey) => string): Record<BucketKey, string> => ({
    unaccounted: of("unaccounted"),
    desktop: of("desktop"),
    unmanaged: of("unmanaged"),
    ollama: of("ollama"),
    comfy: of("comfy"),
    free: of("free"),
  });
  return {
    text: token("text-3"),
    line: token("line"),
    cache: token("cache"),
    warn: token("warn"),
    font: `11px ${token("sans")}`,
    // Two hex digits of alpha behind a six-digit colour.
    fill: each((key) => `${token(key)}d0`),
  };
}
