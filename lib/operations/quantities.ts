/** The wire's quantities: how a unit looks in a schema, said once so that every field's description says the same. */
import * as z from "zod";
import { GIB, toIso } from "../model/units.ts";
import type { Bytes, WallMs } from "../model/units.ts";

/** VRAM or RAM in GiB (2³⁰ bytes), as nvidia-smi and free count; three decimals. */
export const gib = (what: string) => z.number().describe(`${what}, GiB`);

/** A file's size in GB (10⁹ bytes). */
export const gb = (what: string) => z.number().describe(`${what}, GB (10⁹ bytes)`);

/** A time as ISO 8601 UTC with milliseconds. */
export const time = (what: string) => z.string().describe(`${what}, ISO 8601 UTC`);

/** Milliseconds, to a tenth. */
export const ms = (what: string) => z.number().describe(`${what}, ms`);

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

/** GiB as a whole number of bytes: how a `*_gb` parameter enters. */
export function fromGib(gibibytes: number): number {
  return Math.round(gibibytes * GIB);
}
