/** A residency in wire form: the figure, how it was found, how sure it is and how old. */
import * as z from "zod";
import type { Residency } from "../model/page_cache.ts";
import { round } from "../model/units.ts";
import { gb, toGb } from "./quantities.ts";

export const ResidencyWire = z.object({
  state: z.enum(["measured", "unmeasurable", "unknown"]).describe("unknown: not measured yet"),
  residency_pct: z.number().nullable().describe("share of it in the page cache, %"),
  resident_gb: gb("in the page cache", null),
  method: z.string().nullable().describe(
    "cachestat, mincore and memory count every page; nowait, inblock and majflt ask random pages",
  ),
  exact: z.boolean().nullable().describe("every page was counted"),
  samples: z.int().nullable().describe("random pages that were asked; null where all were counted"),
  low_pct: z.number().nullable().describe("lower end of the 99 % interval, %"),
  high_pct: z.number().nullable().describe("upper end of the 99 % interval, %"),
  probe_read_mb: z.number().nullable().describe("read from the disk because it was looked at, MB"),
  probe_dropped_mb: z.number().nullable().describe("of that, dropped again, MB"),
  reason: z.string().nullable().describe("why it can't be measured"),
});
export type ResidencyView = z.output<typeof ResidencyWire>;

const UNKNOWN: ResidencyView = {
  state: "unknown",
  residency_pct: null,
  resident_gb: null,
  method: null,
  exact: null,
  samples: null,
  low_pct: null,
  high_pct: null,
  probe_read_mb: null,
  probe_dropped_mb: null,
  reason: null,
};

export function viewResidency(residency: Residency | null): ResidencyView {
  if (residency === null) return UNKNOWN;
  if (residency.kind === "unmeasurable") {
    return { ...UNKNOWN, state: "unmeasurable", reason: residency.reason };
  }
  const { share, low, high, method, isExact, samples, disturbance } = residency;
  return {
    state: "measured",
    residency_pct: pct(share),
    resident_gb: toGb(residency.residentBytes),
    method,
    exact: isExact,
    samples,
    low_pct: pct(low),
    high_pct: pct(high),
    probe_read_mb: round(disturbance.readBytes / 1e6, 2),
    probe_dropped_mb: round(disturbance.droppedBytes / 1e6, 2),
    reason: null,
  };
}

/** A share as a percentage that never says 100 before it is, nor 0 while something is there. */
export function pct(share: number): number;
export function pct(share: number | null): number | null;
export function pct(share: number | null): number | null {
  if (share === null) return null;
  const rounded = round(share * 100);
  if (rounded === 100 && share < 1) return 99.9;
  return rounded === 0 && share > 0 ? 0.1 : rounded;
}
