/** The gate as doors show it: where it listens, whom it holds, and what became of the rest. */
import * as z from "zod";
import { PRIORITIES } from "../model/admission.ts";
import type { GateView } from "../model/gate.ts";
import { toIso } from "../model/units.ts";
import { time } from "./quantities.ts";

export const GateUrlsWire = z.object({ ollama: z.string().nullable(), comfyui: z.string().nullable() })
  .describe("URLs of the gate, null where it is off");

export const HeldWire = z.object({
  id: z.string(),
  tenant: z.enum(["ollama", "comfyui"]),
  path: z.string(),
  what: z.string().nullable().describe("the model, or the files of the prompt; null = it doesn't say"),
  priority: z.enum(PRIORITIES),
  reason: z.string().describe("behind what it waits"),
  position: z.int().describe("requests that go before it"),
  since: time("since when"),
});

export const GateCountsWire = z.object({
  passed: z.int(),
  held: z.int().describe("of those that passed: held before"),
  refused: z.int(),
  lapsed: z.int().describe("their client left before they were sent"),
  open: z.record(z.string(), z.int()).describe("of those that passed: because the gate could not, or must not, decide"),
  retried: z.int().describe("sent once more after a refusal for want of memory"),
}).describe("requests at the gate since the service started");

const OFF: GateView = {
  urls: { ollama: null, comfyui: null },
  held: [],
  counts: { passed: 0, held: 0, refused: 0, lapsed: 0, open: {}, retried: 0 },
};

export function viewGate({ urls, held, counts }: GateView = OFF) {
  return {
    gate: { ...urls },
    held: held.map(({ sinceMs, ...entry }) => ({ ...entry, since: toIso(sinceMs) })),
    gate_counts: { ...counts, open: { ...counts.open } },
  };
}
