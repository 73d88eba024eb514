/** What the service depends on, what is broken, what that breaks, and how to fix it; and who the service is. */
import * as z from "zod";
import { define } from "./operation.ts";
import { time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { toIso } from "../model/units.ts";

/** Exit codes of `hyperswap health`, for monitors. */
const HEALTH_EXIT: Readonly<Record<string, number>> = { ok: 0, degraded: 10, broken: 11 };

export const health = define({
  name: "health",
  summary: "All that the service depends on: what is broken, what that breaks, how to fix it",
  access: "read",
  input: z.object({}),
  output: z.object({
    state: z.enum(["ok", "degraded", "broken"]),
    checks: z.array(z.object({
      name: z.string(),
      state: z.enum(["ok", "degraded", "broken", "not_applicable"]),
      finding: z.string(),
      breaks: z.string().nullable().describe("what no longer works"),
      remedy: z.string().nullable().describe("how to fix it"),
    })),
  }),
  fails: [],
  http: ROUTES.health,
  cli: { words: ["health"], exit: (value) => HEALTH_EXIT[String(value["state"])] ?? 0 },
  tool: { name: "get_health", idempotent: true },
  handle(services) {
    const { state, checks } = services.health.report();
    return { state, checks: checks.map((check) => ({ ...check })) };
  },
});

export const version = define({
  name: "version",
  summary: "Which HyperSwap this is",
  access: "read",
  input: z.object({}),
  output: z.object({
    service: z.literal("hyperswap").describe("tells it from other services on the same port"),
    version: z.string(),
    pid: z.int(),
    started_at: time("start"),
    simulated: z.boolean(),
    simulation: z.string().nullable(),
  }),
  fails: [],
  http: ROUTES.version,
  cli: false,
  tool: false,
  handle: ({ about }) => ({
    service: "hyperswap" as const,
    version: about.version,
    pid: about.pid,
    started_at: toIso(about.startedAtMs),
    simulated: about.simulation !== null,
    simulation: about.simulation,
  }),
});
