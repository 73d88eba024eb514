/**
 * Quantities as the machine counts them. Memory is counted in bytes everywhere inside; it becomes GiB only where it
 * leaves through a door (`*_gb`), as nvidia-smi and free count.
 */

/** A whole number of bytes; exact in a double up to 8 PiB. */
export type Bytes = number;

/** Milliseconds of a monotonic clock whose zero lies near the Unix epoch (see the Clock port). */
export type MonotonicMs = number;

/** Milliseconds since the Unix epoch, wall clock: may jump. */
export type WallMs = number;

export const KIB = 2 ** 10;
export const MIB = 2 ** 20;
export const GIB = 2 ** 30;

/** Bytes as GiB with three decimals (1 MiB resolution); null stays null. */
export function toGib(bytes: Bytes): number;
export function toGib(bytes: Bytes | null): number | null;
export function toGib(bytes: Bytes | null): number | null {
  return bytes === null ? null : Math.round((bytes / GIB) * 1000) / 1000;
}

/** A number with `digits` decimals; null stays null. */
export function round(value: number, digits?: number): number;
export function round(value: number | null, digits?: number): number | null;
export function round(value: number | null, digits = 1): number | null {
  if (value === null) return null;
  const scale = 10 ** digits;
  return Math.round(value * scale) / scale;
}

/** Bytes as GB (10⁹) for a sentence, to a thousandth; smaller amounts with two figures, so that none reads as nothing. */
export function gbText(bytes: Bytes): string {
  const gb = bytes / 1e9;
  return String(round(gb, 3) || Number(gb.toPrecision(2)));
}

/** ISO 8601 UTC with milliseconds. */
export function toIso(wallMs: WallMs): string {
  return new Date(wallMs).toISOString();
}
