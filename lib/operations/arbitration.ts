/** Who has the card, who waits, how HyperSwap may act, and why it acted as it did. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import type { Services } from "../model/services.ts";
import type { WallMs } from "../model/units.ts";
import { ArbitrationWire, DecisionWire, MODES, viewArbitration, viewDecision } from "./arbitration_view.ts";
import { define } from "./operation.ts";
import { ROUTES } from "./routes.ts";

/** Decisions that the overview shows; `why` has the rest. */
const DECISIONS_SHOWN = 5;

const ArbitrationAnswer = ArbitrationWire.extend({
  decisions: z.array(DecisionWire).describe("the last few, newest first"),
});

function answer(services: Services): z.output<typeof ArbitrationAnswer> {
  return {
    ...viewArbitration(services.arbitration.view()),
    decisions: services.arbitration.why({ id: null, limit: DECISIONS_SHOWN }).map(viewDecision),
  };
}

export const arbitration = define({
  name: "arbitration",
  summary: "Who holds the card, who waits and why, the mode, and the last decisions",
  access: "read",
  input: z.object({}),
  output: ArbitrationAnswer,
  fails: ["unavailable"],
  http: ROUTES.arbitration,
  cli: { words: ["arbitration"] },
  tool: { name: "get_arbitration", idempotent: true },
  handle: answer,
});

export const setArbitration = define({
  name: "set-arbitration",
  summary: "Set how arbitration acts: by itself, only watching, or not at all; and which models it leaves alone",
  access: "operate",
  input: z.object({
    mode: z.enum(MODES).optional()
      .describe(
        "auto acts, observe decides and touches nothing, paused does nothing by itself; left as it is when absent",
      ),
    until: z.string().min(1).optional()
      .describe("when observe or paused ends: ISO 8601 time, or a span such as 45m, 2h, 1d"),
    keep: z.array(z.string().min(1)).optional()
      .describe("models never unloaded by an automatic yield or a switch; replaces the list"),
  }),
  output: ArbitrationAnswer,
  fails: ["unavailable"],
  http: ROUTES["set-arbitration"],
  cli: { words: ["arbitration", "set"], positional: ["mode"] },
  tool: { name: "set_arbitration_mode", idempotent: true },
  handle(services, { mode, until, keep }) {
    const present = services.arbitration.view();
    if (mode === undefined && until === undefined && keep === undefined) {
      throw new Failure("invalid_input", "Parameter mode is missing: nothing was asked to change", {
        hint: `Give mode (${MODES.join(", ")}), until or keep`,
      });
    }
    const next = mode ?? present.mode;
    if (until !== undefined && next === "auto") {
      throw new Failure("invalid_input", "Parameter until goes with observe or paused: auto has no end", {
        hint: "Leave until out, or name the mode that is to end",
      });
    }
    // A new mode starts without an end; only an unchanged one keeps the end it had.
    const untilMs = until !== undefined
      ? readUntil(until, services.live.snapshot().sample.atMs)
      : mode === undefined
      ? present.untilMs
      : null;
    services.arbitration.set({ mode: next, untilMs, keep: keep ?? null });
    return answer(services);
  },
});

const UNIT_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/** A time to come, from an ISO 8601 time or a span counted from the newest sample. */
function readUntil(text: string, nowMs: WallMs): WallMs {
  const span = /^(\d+(?:\.\d+)?)([smhd])$/.exec(text);
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d/.test(text);
  const atMs = span !== null ? nowMs + Number(span[1]) * UNIT_MS[span[2]!]! : isTime ? Date.parse(text) : Number.NaN;
  if (!Number.isFinite(atMs)) {
    throw new Failure("invalid_input", `Parameter until must be an ISO 8601 time or a span, not "${text}"`, {
      hint: "For example 2026-12-01T18:00:00Z, 45m or 2h",
      details: { parameter: "until" },
    });
  }
  if (atMs <= nowMs) {
    throw new Failure("invalid_input", `Parameter until must lie ahead, not "${text}"`, {
      details: { parameter: "until" },
    });
  }
  return Math.round(atMs);
}

export const why = define({
  name: "why",
  summary: "What arbitration decided and why: event, state before and after, effects, reason",
  access: "read",
  input: z.object({
    id: z.int().min(0).optional().describe("that decision alone"),
    limit: z.int().min(1).max(1000).default(20).describe("how many, newest first"),
  }),
  output: z.object({ decisions: z.array(DecisionWire) }),
  fails: ["not_found", "unavailable"],
  http: ROUTES.why,
  cli: { words: ["why"], positional: ["id"] },
  tool: { name: "explain_decision", idempotent: true },
  handle: (services, { id, limit }) => ({
    decisions: services.arbitration.why({ id: id ?? null, limit }).map(viewDecision),
  }),
});
