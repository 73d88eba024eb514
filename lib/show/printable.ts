/**
 * Text from outside as a terminal may have it. A file's name can hold anything but a slash: what would move the cursor,
 * change colours or turn the reading order is shown as a sign of its own instead of being done.
 */

/** Control characters, and those that reorder what stands around them. */
const UNPRINTABLE = /[\p{Cc}\p{Bidi_Control}]/gu;
/** U+2400 and following picture the control characters 0–31; U+2421 pictures 127. */
const PICTURES = 0x2400;
const DELETE = 0x7f;

/** One line: line breaks are pictured too. */
export function printableLine(text: string): string {
  return text.replaceAll(UNPRINTABLE, picture);
}

/** All texts of an answer; their line breaks and tabs stay. */
export function printable<T>(value: T): T;
export function printable(value: unknown): unknown {
  if (typeof value === "string") {
    return value.replaceAll(UNPRINTABLE, (sign) => /[\n\t]/.test(sign) ? sign : picture(sign));
  }
  if (Array.isArray(value)) return value.map((part) => printable(part));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [printableLine(key), printable(part)]));
}

function picture(sign: string): string {
  const code = sign.charCodeAt(0);
  if (code === DELETE) return "\u2421";
  return code < 32 ? String.fromCharCode(PICTURES + code) : "\ufffd";
}
