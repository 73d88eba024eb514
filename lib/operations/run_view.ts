/** Long work in wire form. */
import * as z from "zod";
import { FAILURES } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { RunView } from "../model/services.ts";
import { round, toIso } from "../model/units.ts";
import { isoOrNull, time } from "./quantities.ts";

// Object.keys gives strings; these are the keys of FAILURES and nothing else.
const CODES = Object.keys(FAILURES) as [FailureCode, ...FailureCode[]];

export const ErrorWire = z.object({
  code: z.enum(CODES),
  message: z.string(),
  hint: z.string().optional().describe("what helps"),
  details: z.record(z.string(), z.unknown()).optional(),
});

export const RunSummaryWire = z.object({
  id: z.string(),
  operation: z.string(),
  state: z.enum(["running", "done", "failed", "cancelled"]),
  phase: z.string().nullable().describe("where it stands, in words"),
  done_pct: z.number().nullable().describe("share done, %"),
  eta_ms: z.number().nullable(),
  started_at: time("start"),
  ended_at: time("end", null),
});

export const RunWire = RunSummaryWire.extend({
  version: z.int().describe("goes up with every change"),
  result: z.unknown().describe("the operation's answer, once done; else null"),
  error: ErrorWire.nullable().describe("why it failed or was cancelled"),
});
export type RunWireView = z.output<typeof RunWire>;

export function viewRunSummary(run: RunView): z.output<typeof RunSummaryWire> {
  const done = run.progress?.done ?? null;
  return {
    id: run.id,
    operation: run.operation,
    state: run.state,
    phase: run.progress?.phase ?? null,
    done_pct: done === null ? null : round(done * 100),
    eta_ms: round(run.progress?.etaMs ?? null, 0),
    started_at: toIso(run.startedAtMs),
    ended_at: isoOrNull(run.endedAtMs),
  };
}

export function viewRun(run: RunView): RunWireView {
  const { error } = run;
  return {
    ...viewRunSummary(run),
    version: run.version,
    result: run.result ?? null,
    error: error === null ? null : {
      code: error.code,
      message: error.message,
      ...(error.hint === null ? {} : { hint: error.hint }),
      ...(error.details === null ? {} : { details: { ...error.details } }),
    },
  };
}
