/** The thermal governor: where it stands and why, and switching it. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import { define } from "./operation.ts";
import { ROUTES } from "./routes.ts";
import { GovernorWire, viewGovernor } from "./tuning_view.ts";

export const governor = define({
  name: "governor",
  summary: "The thermal governor: its level, what that does, why, and what it did before",
  access: "read",
  input: z.object({}),
  output: GovernorWire,
  fails: [],
  http: ROUTES.governor,
  cli: { words: ["governor"] },
  tool: { name: "get_thermal_governor_status", idempotent: true },
  handle: ({ card }) => viewGovernor(card.governor()),
});

export const setGovernor = define({
  name: "set-governor",
  summary: "Enable or disable the thermal governor, or clear it back to level 0",
  access: "tune",
  input: z.object({
    enabled: z.boolean().optional().describe("whether it acts on heat; as it is when left out"),
    reset: z.boolean().default(false).describe("back to level 0 at once"),
  }),
  aliases: { clear: "reset" },
  output: GovernorWire,
  fails: ["invalid_input"],
  http: ROUTES["set-governor"],
  cli: { words: ["governor", "set"] },
  tool: { name: "set_thermal_governor", idempotent: true },
  handle: async ({ card }, { enabled, reset }, { signal }) => {
    if (enabled === undefined && !reset) {
      throw new Failure("invalid_input", "Nothing was asked of the governor", {
        hint: "Give enabled (true or false), reset=true, or both",
      });
    }
    await card.tune({ kind: "governor", enabled: enabled ?? null, reset }, signal);
    return viewGovernor(card.governor());
  },
});
