/** Locking model files in memory, and letting them go. */
import * as z from "zod";
import type { PinResult } from "../model/cache.ts";
import { toGib } from "../model/units.ts";
import { bytesOf } from "./cache.ts";
import { define } from "./operation.ts";
import { amount, gb, gib, toGb } from "./quantities.ts";
import { ROUTES } from "./routes.ts";
import { choice, chosen } from "./warm.ts";

const PinnedWire = z.object({ path: z.string(), locked_gb: gb("locked") });

const PinWire = z.object({
  changed: z.array(PinnedWire).describe("what this call locked or let go"),
  pinned: z.array(PinnedWire.extend({
    held_for: z.array(z.string()).describe("models that it is pinned for (or its path): it is unlocked with the last"),
  })).describe("all that is locked now, each file once"),
  locked_gb: gb("locked in all"),
  budget_gb: gb("what may be locked at most"),
  available_before_gb: gib("MemAvailable before", null),
  available_after_gb: gib("MemAvailable after: locked pages no longer count", null),
  message: z.string(),
});

function viewPin(result: PinResult): z.output<typeof PinWire> {
  const view = ({ path, lockedBytes }: PinResult["changed"][number]) => ({ path, locked_gb: toGb(lockedBytes) });
  return {
    changed: result.changed.map(view),
    pinned: result.pinned.map((file) => ({ ...view(file), held_for: [...file.heldFor] })),
    locked_gb: toGb(result.lockedBytes),
    budget_gb: toGb(result.budgetBytes),
    available_before_gb: toGib(result.availableBeforeBytes),
    available_after_gb: toGib(result.availableAfterBytes),
    message: result.message,
  };
}

const limit = amount(
  "GB (10⁹ bytes) that may be locked in all; at most what pin.budget_gb allows, which counts when it is left out",
).optional();
const fails = ["not_found", "forbidden", "unavailable", "wont_fit"] as const;

export const pin = define({
  name: "pin",
  summary: "Lock a model's pages in memory, so that nothing pushes them out; programs have that much less",
  access: "operate",
  input: z.object({ ...choice, budget_gb: limit }),
  aliases: { model: "model_name", path: "filepath" },
  output: PinWire,
  fails,
  http: ROUTES.pin,
  cli: { words: ["cache", "pin"], positional: ["model_name"] },
  tool: false,
  handle: async (services, { budget_gb, ...input }, call) =>
    viewPin(await services.cache.pin({ ...chosen(input), budgetBytes: bytesOf(budget_gb) }, call)),
});

export const unpin = define({
  name: "unpin",
  summary: "Let a model's pages go: they stay in memory until something else needs the room",
  access: "operate",
  input: z.object(choice),
  aliases: { model: "model_name", path: "filepath" },
  output: PinWire,
  fails: ["not_found", "forbidden", "unavailable"],
  http: ROUTES.unpin,
  cli: { words: ["cache", "unpin"], positional: ["model_name"] },
  tool: false,
  handle: async (services, input) => viewPin(await services.cache.unpin(chosen(input))),
});

/** Both as one, for agents. */
export const setPinned = define({
  name: "set-pinned",
  summary: "Lock a model's pages in memory, or let them go",
  access: "operate",
  input: z.object({ pinned: z.boolean().describe("true locks, false lets go"), ...choice, budget_gb: limit }),
  aliases: { model: "model_name", path: "filepath" },
  output: PinWire,
  fails,
  http: ROUTES["set-pinned"],
  cli: false,
  tool: { name: "set_pinned_models", idempotent: true },
  handle: async (services, { pinned, budget_gb, ...input }, call) =>
    viewPin(
      pinned
        ? await services.cache.pin({ ...chosen(input), budgetBytes: bytesOf(budget_gb) }, call)
        : await services.cache.unpin(chosen(input)),
    ),
});
