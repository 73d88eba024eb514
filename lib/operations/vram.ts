/** Giving VRAM back: yield (Ollama), purge (ComfyUI), and room for a newcomer. Confirmed by the driver, or said not to be. */
import * as z from "zod";
import { causeWord } from "../model/arbitration.ts";
import type { Held, PurgeResult, YieldResult } from "../model/arbitration.ts";
import { EXIT_NOT_RELEASED, FAILURES } from "../model/failure.ts";
import { round, toGib } from "../model/units.ts";
import { define } from "./operation.ts";
import { amount, fromGib, gib, ms } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

export const OUTCOMES = [
  "nothing_loaded",
  "unreachable",
  "remote",
  "unconfirmed",
  "released",
  "busy",
  "fault",
  "timeout",
] as const;

const HeldWire = z.object({
  pid: z.int().nullable(),
  starttime: z.int().nullable().describe("with the pid it names the process: what `runner end` takes"),
  model: z.string().nullable(),
  vram_gb: gib("what it still holds", null),
  evidence: z.string().describe("what it was seen doing"),
});

const common = {
  outcome: z.enum(OUTCOMES).describe("only `released` says that the driver gave the memory back"),
  cause: z.string().describe("whose request, or which observation"),
  request_ms: ms("until the last reply; null when nothing was asked", null),
  confirm_ms: ms("until the driver confirmed; null unless released", null),
  freed_gb: gib("what came back", null),
  confirmed_by: z.string().nullable(),
  message: z.string(),
};

export const YieldWire = z.object({
  ...common,
  models: z.array(z.string()),
  pids: z.array(z.int()),
  held: z.array(HeldWire).describe("what still holds memory, and why"),
});

export const PurgeWire = z.object({
  ...common,
  remaining_gb: gib("what ComfyUI holds afterwards; its CUDA context stays", null),
  purge_overlapped: z.boolean().describe("a prompt slipped in between the request and its effect"),
});

/** A yield under the names that stay. */
export function viewYield(result: YieldResult): z.output<typeof YieldWire> {
  return {
    ...viewCommon(result),
    models: [...result.models],
    pids: [...result.pids],
    held: result.held.map(viewHeld),
  };
}

/** A purge under the names that stay. */
export function viewPurge(result: PurgeResult): z.output<typeof PurgeWire> {
  return { ...viewCommon(result), remaining_gb: toGib(result.remainingBytes), purge_overlapped: result.overlapped };
}

function viewCommon(result: YieldResult | PurgeResult) {
  return {
    outcome: result.outcome,
    cause: causeWord(result.cause),
    request_ms: round(result.requestMs, 1),
    confirm_ms: round(result.confirmMs, 1),
    freed_gb: toGib(result.freedBytes),
    confirmed_by: result.confirmedBy,
    message: result.message,
  };
}

function viewHeld({ pid, startTime, model, bytes, evidence }: Held): z.output<typeof HeldWire> {
  return { pid, starttime: startTime ?? null, model, vram_gb: toGib(bytes), evidence };
}

/** The caller wanted the memory back: anything else than that is told by the exit code too. */
function exitOf(value: Readonly<Record<string, unknown>>): number {
  return value["outcome"] === "released" || value["outcome"] === "nothing_loaded" ? 0 : EXIT_NOT_RELEASED;
}

const confirm = z.boolean().default(true).describe("wait until the driver has the memory back; false: unconfirmed");

export const freeVram = define({
  name: "free-vram",
  summary: "Unload Ollama's models and wait until the driver really has their VRAM back",
  access: "operate",
  input: z.object({
    model_name: z.string().min(1).optional().describe("one model; every resident one when left out"),
    confirm,
  }),
  aliases: { model: "model_name" },
  output: YieldWire,
  fails: ["not_found", "unavailable", "upstream", "busy"],
  http: { ...ROUTES["free-vram"], query: ["confirm"] },
  cli: { words: ["yield"], positional: ["model_name"], exit: exitOf },
  tool: {
    name: "soft_yield_ollama_vram",
    guidance: "Use it before starting something that needs VRAM. Only the outcome `released` proves that it is back.",
    destructive: true,
    idempotent: true,
  },
  handle: async (services, { model_name, confirm }, call) =>
    viewYield(
      await services.arbitration.yieldVram(
        { models: model_name === undefined ? null : [model_name], confirm, operation: "free-vram" },
        call,
      ),
    ),
});

export const comfyFree = define({
  name: "comfy-free",
  summary: "Have ComfyUI drop its models and wait until the driver has their VRAM back; never while it executes",
  access: "operate",
  input: z.object({ confirm }),
  output: PurgeWire,
  fails: ["busy", "unavailable", "upstream"],
  http: { ...ROUTES["comfy-free"], query: ["confirm"] },
  cli: { words: ["purge"], exit: exitOf },
  tool: { name: "purge_comfyui_vram", destructive: true, idempotent: true },
  handle: async (services, { confirm }, call) =>
    viewPurge(await services.arbitration.purge({ confirm, operation: "comfy-free" }, call)),
});

export const HolderWire = z.object({
  bucket: z.enum(["ollama", "comfy", "desktop", "unmanaged", "unaccounted"]),
  vram_gb: gib("what it holds"),
  who: z.array(z.string()).describe("the processes behind it"),
});

export const requestVram = define({
  name: "request-vram",
  summary: "Make room for a model: reclaim an idle ComfyUI when what is needed isn't free",
  access: "operate",
  input: z.object({ needed_gb: amount("what is needed, GiB") }),
  output: z.object({
    had_gb: gib("free before", null),
    needed_gb: gib("asked for"),
    reclaimed_gb: gib("what came back", null),
    free_gb: gib("free now", null),
    fits: z.boolean().nullable(),
    purge: PurgeWire.nullable().describe("the purge it took, or null"),
    holders: z.array(HolderWire).describe("who holds the rest"),
    message: z.string(),
  }),
  fails: ["busy", "wont_fit", "unavailable", "upstream"],
  http: ROUTES["request-vram"],
  cli: {
    words: ["request-vram"],
    positional: ["needed_gb"],
    exit: ({ fits }) => fits === true ? 0 : fits === false ? FAILURES.wont_fit.exit : EXIT_NOT_RELEASED,
  },
  tool: { name: "request_vram_for_ollama", destructive: true },
  async handle(services, { needed_gb }, call) {
    const result = await services.arbitration.requestVram(
      { neededBytes: fromGib(needed_gb), operation: "request-vram" },
      call,
    );
    return {
      had_gb: toGib(result.hadBytes),
      needed_gb: toGib(result.neededBytes),
      reclaimed_gb: toGib(result.reclaimedBytes),
      free_gb: toGib(result.freeBytes),
      fits: result.fits,
      purge: result.purge === null ? null : viewPurge(result.purge),
      holders: result.holders.map(({ bucket, bytes, who }) => ({ bucket, vram_gb: toGib(bytes), who: [...who] })),
      message: result.message,
    };
  },
});
