/** What a switch does next (OPERATIONS.md, switch-model): fits → load; else evict the others; else reclaim ComfyUI. */
import type { Refusal } from "../model/arbitration.ts";
import { didYouMean } from "../model/did_you_mean.ts";
import { canonical, isSameModel } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import { type Bytes, toGib } from "../model/units.ts";
import type { JobContext } from "./job.ts";
import { describeHolders, fits, holdersIn, needOf } from "./need.ts";
import { comfyHoldings, holdsModels } from "./purge_job.ts";
import { findTargets, isRowTaken, type Target } from "./yield_targets.ts";

export type NextMove =
  | { readonly kind: "load"; readonly reason: string }
  | { readonly kind: "yield"; readonly reason: string }
  | { readonly kind: "purge"; readonly reason: string }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

export interface SwitchFacts
  extends Pick<JobContext, "sample" | "policy" | "footprints" | "keep" | "isComfyBusy" | "comfyContextBytes"> {
  readonly model: string;
  /** Free now, by the newest reading. */
  readonly freeBytes: Bytes | null;
  readonly hasYielded: boolean;
  readonly hasPurged: boolean;
  /** Ollama refused the load for want of memory: what it was said to need doesn't count any more. */
  readonly isRetry: boolean;
  /** Something was asked back since that refusal. */
  readonly isReclaimed: boolean;
}

export function refusal(
  code: Refusal["code"],
  message: string,
  more: { readonly hint?: string; readonly details?: Readonly<Record<string, unknown>> } = {},
): Refusal {
  return { code, message, hint: more.hint ?? null, details: more.details ?? null };
}

/** A refusal that needs no look at the card: unknown model, Ollama down. Null = go on. */
export function refuseEarly(model: string, sample: Sample): Refusal | null {
  const { ollama } = sample;
  if (!ollama.online) {
    return refusal("unavailable", `Ollama at ${ollama.url} doesn't answer: ${ollama.reason ?? "unknown"}`, {
      hint: "Start Ollama, or set ollama.url to where it listens",
    });
  }
  const names = ollama.installed.map((entry) => entry.name);
  if (names.length === 0 || names.some((name) => isSameModel(name, model))) return null;
  return refuseUnknown(model, sample);
}

export function refuseUnknown(model: string, { ollama }: Sample): Refusal {
  const names = ollama.installed.map((entry) => entry.name);
  // The tag that everybody leaves out would drown a typing error.
  const bare = (name: string) => canonical(name).replace(/:latest$/, "");
  const close = didYouMean(bare(model), names.map(bare));
  const meant = names.find((name) => bare(name) === close) ?? null;
  return refusal("not_found", `Ollama has no model '${model}'`, {
    hint: meant === null ? "`hyperswap models` lists what is installed" : `Did you mean '${meant}'?`,
    details: { installed: names },
  });
}

/** ComfyUI got work while a switch was under way: it goes first. */
export function refusePreempted(): Refusal {
  return refusal("busy", "ComfyUI began to execute meanwhile and goes first: the load was called off", {
    hint: "Try again when ComfyUI's queue is empty",
  });
}

/** The next move, decided afresh after each step. */
export function nextMove(facts: SwitchFacts): NextMove {
  const { sample, policy } = facts;
  if (sample.ollama.isRemote) {
    return { kind: "load", reason: "Ollama runs on another host: this card has no part in it" };
  }
  const isResident = sample.ollama.resident.some((row) => isSameModel(row.name, facts.model));
  if (isResident && !facts.hasYielded && !facts.isRetry) return { kind: "load", reason: "it is resident already" };
  const need = facts.isRetry ? null : needOf(facts.model, policy, facts.footprints);
  if (fits(need, facts.freeBytes, policy)) return { kind: "load", reason: "it fits beside what is there" };
  if (facts.isComfyBusy && !couldFit(need, facts)) return { kind: "refuse", refusal: comfyBusy(facts) };
  if (!facts.hasYielded && hasOthers(facts)) {
    return {
      kind: "yield",
      reason: need === null ? "its need is unknown, so it counts as all of the card" : "it doesn't fit",
    };
  }
  if (!facts.hasPurged && canPurge(facts)) {
    return { kind: "purge", reason: "it still may not fit, and ComfyUI is idle" };
  }
  const isKnownTooBig = need !== null && facts.freeBytes !== null && need > facts.freeBytes;
  if (isKnownTooBig || facts.isRetry && !facts.isReclaimed) {
    return { kind: "refuse", refusal: cantFit(facts) };
  }
  return { kind: "load", reason: "everything that could be given back has been" };
}

/** Whether evicting the models that are not kept could make room by itself; an unknown need never fits. */
function couldFit(need: Bytes | null, facts: SwitchFacts): boolean {
  const { gpu } = facts.sample;
  if (facts.hasYielded || facts.freeBytes === null || !gpu.available) return false;
  const pids = evictable(facts).map((target) => target.runner.pid);
  const bytes = gpu.breakdown.processes.reduce(
    (sum, process) => sum + (pids.includes(process.pid) ? process.usedBytes ?? 0 : 0),
    facts.freeBytes,
  );
  return fits(need, bytes, facts.policy);
}

function evictable({ keep, model, sample }: SwitchFacts): readonly Target[] {
  const { runners, resident } = sample.ollama;
  return findTargets([], { runners, resident, names: sample.ollama, scope: { models: null, keep: [...keep, model] } });
}

function hasOthers(facts: SwitchFacts): boolean {
  const { keep, model, sample } = facts;
  const scope = { models: null, keep: [...keep, model] };
  return evictable(facts).length > 0 || sample.ollama.resident.some((row) => isRowTaken(row, scope, sample.ollama));
}

export function canPurge(facts: Pick<SwitchFacts, "sample" | "policy" | "comfyContextBytes">): boolean {
  const { comfy } = facts.sample;
  return comfy.online && !comfy.isRemote && comfyHoldings(facts.sample).pids.length > 0 && holdsModels(facts) !== false;
}

function comfyBusy(facts: SwitchFacts): Refusal {
  const need = needOf(facts.model, facts.policy, facts.footprints);
  const size = need === null ? "what it needs is not known yet" : `it needs ${toGib(need)} GB`;
  return refusal("busy", `ComfyUI is executing and '${facts.model}' doesn't fit beside it: ${size}`, {
    hint: "Try again when ComfyUI's queue is empty, or tell what it needs under [needs] in the configuration",
    details: { needed_gb: toGib(need), free_gb: toGib(facts.freeBytes) },
  });
}

/** "Can't fit", with who holds the rest. */
export function cantFit(
  facts: Pick<SwitchFacts, "sample" | "policy" | "footprints" | "freeBytes" | "model">,
): Refusal {
  const need = needOf(facts.model, facts.policy, facts.footprints);
  const holders = holdersIn(facts.sample);
  const size = need === null
    ? ""
    : `: it needs ${toGib(need)} GB and ${toGib(facts.freeBytes) ?? "unknown"} GB are free`;
  return refusal("wont_fit", `'${facts.model}' can't fit${size}. The rest is held by ${describeHolders(holders)}`, {
    hint: "What is unmanaged can't be given back by HyperSwap: end those programs, or choose a smaller model",
    details: {
      needed_gb: toGib(need),
      free_gb: toGib(facts.freeBytes),
      holders: holders.map((share) => ({ bucket: share.bucket, gb: toGib(share.bytes), who: share.who })),
    },
  });
}
