/** Profiles and levers: what is set and why, and setting something else. */
import * as z from "zod";
import { type Lever, LEVERS } from "../model/card.ts";
import { Failure } from "../model/failure.ts";
import type { TuneResult } from "../model/tuning_view.ts";
import type { ProfileValue } from "../model/tuning.ts";
import { define } from "./operation.ts";
import { ROUTES } from "./routes.ts";
import { ChangeWire, OverclockWire, viewLever, viewOverclock } from "./tuning_view.ts";

/** A change may be tried for an hour at most: by then somebody has forgotten it. */
const TRIAL_MAX_S = 3_600;

export const confirmWithin = z.number().min(0).max(TRIAL_MAX_S)
  .describe("seconds after which it is taken back unless confirmed; 0: it stays");

/** The trial's length, or null where it stays without one. */
export function trialMs(seconds: number | undefined): number | null {
  return seconds === undefined || seconds === 0 ? null : seconds * 1000;
}

const leverValue = z.union([z.number(), z.string().min(1)]);

/** A lever's value as given: a number in its unit, `default` (stock) or `max`. */
function readValue(name: string, given: number | string): ProfileValue {
  if (given === "default" || given === "max") return given;
  if (given === "stock" || given === "auto") return "default";
  const number = typeof given === "number" ? given : Number(given);
  if (Number.isFinite(number) && String(given).trim() !== "") return number;
  throw new Failure(
    "invalid_input",
    `Parameter ${name} must be a number, default or max, not ${JSON.stringify(given)}`,
    {
      hint: "hyperswap overclock shows what this card allows",
      details: { parameter: name },
    },
  );
}

/** What became of a change, in wire form. */
export function viewChange({ message, levers }: TuneResult): z.output<typeof ChangeWire> {
  return { message, levers: levers.map(viewLever) };
}

export const overclock = define({
  name: "overclock",
  summary: "What is set on the card and why: profile, levers with verdict and evidence, limits, fans, drift",
  access: "read",
  input: z.object({}),
  output: OverclockWire,
  fails: ["unavailable"],
  http: ROUTES.overclock,
  cli: { words: ["overclock"] },
  tool: { name: "get_overclock_status", idempotent: true },
  handle: (services) => viewOverclock(services.card.tuning(), services.live.snapshot().sample.gpu),
});

export const applyProfile = define({
  name: "apply-profile",
  summary: "Set the card as a profile says; auto follows the workload again",
  access: "tune",
  input: z.object({
    profile: z.string().min(1).describe("its name, or auto"),
    confirm_within_s: confirmWithin.optional(),
  }),
  output: ChangeWire,
  fails: ["not_found", "unavailable"],
  http: ROUTES["apply-profile"],
  cli: { words: ["overclock", "apply"], positional: ["profile"] },
  tool: { name: "apply_overclock_profile", idempotent: true },
  handle: async ({ card }, { profile, confirm_within_s }, { signal }) =>
    viewChange(
      await card.tune({ kind: "profile", name: profile, confirmMs: trialMs(confirm_within_s) }, signal),
    ),
});

const optionalLever = (what: string) =>
  leverValue.optional().describe(`${what}; default = stock, max = all the card allows`);

export const saveProfile = define({
  name: "save-profile",
  summary: "Save a profile under a name, checked against this card; with confirm_within_s it is applied on trial",
  access: "tune",
  input: z.object({
    name: z.string().min(1).describe("a–z, 0–9, dot, dash and underscore"),
    power_limit_w: optionalLever("power limit, W"),
    lock_core_mhz: optionalLever("highest graphics clock, MHz"),
    lock_mem_mhz: optionalLever("highest memory clock, MHz"),
    core_offset_mhz: optionalLever("graphics clock offset, MHz"),
    mem_offset_mhz: optionalLever("memory clock offset, MHz"),
    fan: optionalLever("all fans, %"),
    confirm_within_s: confirmWithin.optional(),
  }),
  aliases: { lock_core_max: "lock_core_mhz" },
  output: ChangeWire,
  fails: ["invalid_input", "busy", "unavailable"],
  http: ROUTES["save-profile"],
  cli: { words: ["overclock", "save"], positional: ["name"] },
  tool: { name: "save_overclock_profile", idempotent: true },
  handle: async ({ card }, { name, confirm_within_s, ...given }, { signal }) => {
    const values: Partial<Record<Lever, ProfileValue>> = {};
    for (const lever of LEVERS) {
      const value = given[lever];
      if (value !== undefined) values[lever] = readValue(lever, value);
    }
    return viewChange(await card.tune({ kind: "save", name, values, confirmMs: trialMs(confirm_within_s) }, signal));
  },
});

export const deleteProfile = define({
  name: "delete-profile",
  summary: "Delete a profile that was saved; built-in ones stay",
  access: "tune",
  input: z.object({ name: z.string().min(1).describe("the saved profile") }),
  output: ChangeWire,
  fails: ["not_found", "invalid_input"],
  http: ROUTES["delete-profile"],
  cli: { words: ["overclock", "delete"], positional: ["name"] },
  tool: { name: "delete_overclock_profile", destructive: true },
  handle: async ({ card }, { name }, { signal }) => viewChange(await card.tune({ kind: "delete", name }, signal)),
});

export const setLever = define({
  name: "set-lever",
  summary: "Set one lever of the card; taken back after confirm_within_s unless confirmed",
  access: "tune",
  input: z.object({
    lever: z.enum([...LEVERS, "lock_core_max"]).describe("which one"),
    value: leverValue.describe("a number in the lever's unit, default (stock) or max"),
    confirm_within_s: confirmWithin.default(30),
  }),
  output: ChangeWire,
  fails: ["invalid_input", "unavailable"],
  http: ROUTES["set-lever"],
  cli: { words: ["overclock", "set"], positional: ["lever", "value"] },
  tool: { name: "set_gpu_lever", guidance: "Call confirm_change within the time, or it is taken back." },
  handle: async ({ card }, { lever: named, value, confirm_within_s }, { signal }) => {
    const lever = named === "lock_core_max" ? "lock_core_mhz" : named;
    const confirmMs = trialMs(confirm_within_s);
    return viewChange(await card.tune({ kind: "lever", lever, value: readValue("value", value), confirmMs }, signal));
  },
});

export const confirmChange = define({
  name: "confirm-change",
  summary: "Keep the change that waits for its confirmation",
  access: "tune",
  input: z.object({}),
  output: ChangeWire,
  fails: ["not_found"],
  http: ROUTES["confirm-change"],
  cli: { words: ["overclock", "confirm"] },
  tool: { name: "confirm_change" },
  handle: async ({ card }, _input, { signal }) => viewChange(await card.tune({ kind: "confirm" }, signal)),
});

export const restore = define({
  name: "restore",
  summary: "Put every lever of the card to stock and read each back; it stays so until a profile is applied",
  access: "tune",
  input: z.object({
    scope: z.enum(["all", "journal", "fans"]).default("all").describe(
      "journal: only what was changed by HyperSwap; fans: of that the fans alone, until the machine is back from sleep",
    ),
  }),
  output: ChangeWire,
  fails: ["unavailable"],
  http: ROUTES.restore,
  cli: { words: ["restore"] },
  tool: { name: "restore_stock_gpu_state", idempotent: true },
  handle: async ({ card }, { scope }, { signal }) => viewChange(await card.tune({ kind: "restore", scope }, signal)),
});
