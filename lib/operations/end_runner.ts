/** The last step of a stuck unload: end that one runner. Explicit, opt-in, and only what was reported as a fault. */
import * as z from "zod";
import { EXIT_NOT_RELEASED } from "../model/failure.ts";
import { round, toGib } from "../model/units.ts";
import { define } from "./operation.ts";
import { gib, ms } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { OUTCOMES } from "./vram.ts";

export const endRunner = define({
  name: "end-runner",
  summary: "End one runner that was reported as stuck, and wait until the driver has its memory back",
  access: "admin",
  input: z.object({
    pid: z.int().min(1).describe("its process, as the fault names it"),
    starttime: z.int().min(1).describe(
      "its start time in clock ticks, so that no later process with that pid is meant",
    ),
  }),
  output: z.object({
    outcome: z.enum(OUTCOMES).describe("`released`: the driver has its memory back"),
    pid: z.int(),
    starttime: z.int(),
    model: z.string().nullable(),
    freed_gb: gib("what came back", null),
    confirm_ms: ms("until the driver confirmed; null unless released", null),
    confirmed_by: z.string().nullable(),
    message: z.string(),
  }),
  fails: ["forbidden", "not_found", "busy", "unavailable"],
  http: ROUTES["end-runner"],
  cli: {
    words: ["runner", "end"],
    positional: ["pid", "starttime"],
    exit: ({ outcome }) => outcome === "released" ? 0 : EXIT_NOT_RELEASED,
  },
  tool: {
    name: "end_stuck_runner",
    guidance: "Only for a runner that a yield has reported as `fault`; its requests, if it has any, are lost.",
    destructive: true,
  },
  async handle(services, { pid, starttime }, call) {
    const request = { process: { pid, startTime: starttime }, operation: "end-runner" };
    const result = await services.arbitration.endRunner(request, call);
    return {
      outcome: result.outcome,
      pid: result.process.pid,
      starttime: result.process.startTime,
      model: result.model,
      freed_gb: toGib(result.freedBytes),
      confirm_ms: round(result.confirmMs, 1),
      confirmed_by: result.confirmedBy,
      message: result.message,
    };
  },
});
