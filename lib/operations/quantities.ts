/** The wire's quantities: how a unit looks in a schema, said once so that every field's description says the same. */
import * as z from "zod";
import { GIB, toIso } from "../model/units.ts";
import type { Bytes, WallMs } from "../model/units.ts";

/** A number that is described with its unit; the second argument `null` says that it may be unknown. */
function quantity(unit: string) {
  function described(what: string): z.ZodNumber;
  function described(what: string, unknown: null): z.ZodNullable<z.ZodNumber>;
  function described(what: string, unknown?: null) {
    const description = `${what}, ${unit}`;
    return unknown === null ? z.number().nullable().describe(description) : z.number().describe(description);
  }
  return described;
}

/** VRAM or RAM in GiB (2³⁰ bytes), as nvidia-smi and free count; three decimals. */
export const gib = quantity("GiB");

/** A file's size in GB (10⁹ bytes). */
export const gb = quantity("GB (10⁹ bytes)");

/** Milliseconds, to a tenth. */
export const ms = quantity("ms");

/** A time as ISO 8601 UTC with milliseconds. */
export function time(what: string): z.ZodString;
export function time(what: string, unknown: null): z.ZodNullable<z.ZodString>;
export function time(what: string, unknown?: null) {
  const description = `${what}, ISO 8601 UTC`;
  return unknown === null ? z.string().nullable().describe(description) : z.string().describe(description);
}

/** A file's size in GB (10⁹ bytes) with three decimals; null stays null. */
export function toGb(bytes: Bytes): number;
export function toGb(bytes: Bytes | null): number | null;
export function toGb(bytes: Bytes | null): number | null {
  return bytes === null ? null : Math.round(bytes / 1e6) / 1e3;
}

/** ISO time, or null for null. */
export function isoOrNull(wallMs: WallMs | null): string | null {
  return wallMs === null ? null : toIso(wallMs);
}

/** More GB than any machine has, and few enough that their bytes are still counted one by one. */
const MOST_GB = 1_000_000;

/** An amount of memory that is asked for, in GiB or GB. */
export function amount(what: string): z.ZodNumber {
  return z.number().gt(0).max(MOST_GB).describe(what);
}

/** GiB as a whole number of bytes: how a `*_gb` parameter enters. */
export function fromGib(gibibytes: number): number {
  return Math.round(gibibytes * GIB);
}
