/** The fans, all together: automatic, or a speed set by hand. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import { define } from "./operation.ts";
import { confirmWithin, trialMs, viewChange } from "./overclock.ts";
import { ROUTES } from "./routes.ts";
import { ChangeWire, FanStatusWire, viewFans } from "./tuning_view.ts";

export const fan = define({
  name: "fan",
  summary: "The fans: mode, target, live speed and RPM",
  access: "read",
  input: z.object({}),
  output: FanStatusWire,
  fails: ["unavailable"],
  http: ROUTES.fan,
  cli: { words: ["fan"] },
  tool: { name: "get_gpu_fan_status", idempotent: true },
  handle: (services) => viewFans(services.live.snapshot().sample.gpu, services.card.tuning()),
});

export const setFan = define({
  name: "set-fan",
  summary: "Give the fans back to the card (auto), or set all of them to a speed (manual)",
  access: "tune",
  input: z.object({
    mode: z.enum(["auto", "manual"]).describe("auto: the card decides"),
    percent: z.int().min(30).max(100).optional().describe("speed of all fans, %; required for manual"),
    confirm_within_s: confirmWithin.optional(),
  }),
  output: ChangeWire,
  fails: ["invalid_input", "unavailable"],
  http: ROUTES["set-fan"],
  cli: { words: ["fan", "set"], positional: ["mode", "percent"] },
  tool: { name: "set_gpu_fan_speed", idempotent: true },
  handle: async ({ card }, { mode, percent, confirm_within_s }, { signal }) => {
    if (mode === "manual" && percent === undefined) {
      throw new Failure("invalid_input", "Parameter percent is missing", {
        hint: "mode manual takes a percent from 30 to 100",
        details: { parameter: "percent" },
      });
    }
    if (mode === "auto" && percent !== undefined) {
      throw new Failure("invalid_input", "Parameter percent makes no sense with mode auto", {
        hint: "Use mode manual to set a speed",
        details: { parameter: "percent" },
      });
    }
    const value = percent ?? "default";
    return viewChange(
      await card.tune({ kind: "lever", lever: "fan", value, confirmMs: trialMs(confirm_within_s) }, signal),
    );
  },
});
