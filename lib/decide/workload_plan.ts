/**
 * What would happen if this ran now (SPEC 2.10, `plan`): the same decisions as the lane's, played on the newest sample.
 * Nothing is asked of anybody.
 */
import type { Refusal } from "../model/arbitration.ts";
import type { Need, PlanRequest, PlanStep, WorkloadPlan } from "../model/footprints.ts";
import { isSameModel } from "../model/model_names.ts";
import { type Bytes, toGib } from "../model/units.ts";
import type { ArbiterState } from "./arbiter_state.ts";
import type { JobContext } from "./job.ts";
import { COMFY_KEY, describeHolders, findNeed, fits, freeOf, holdersOf } from "./need.ts";
import { comfyHoldings, holdsModels } from "./purge_job.ts";
import { nextMove, refuseEarly } from "./switch_plan.ts";
import { chooseYield } from "./triggers.ts";
import { findTargets } from "./yield_targets.ts";

type Outcome = Pick<WorkloadPlan, "verdict" | "steps" | "refusal" | "message">;

/** `context` is made of `state`, as a job that starts now would get it. */
export function planWorkload(request: PlanRequest, state: ArbiterState, context: JobContext): WorkloadPlan {
  const { model, workflow, neededBytes } = request;
  const name = model ?? (workflow === null ? null : COMFY_KEY);
  const policy = name === null || neededBytes === null
    ? context.policy
    : { ...context.policy, needs: { [name]: neededBytes, ...withoutKey(context.policy.needs, name) } };
  const need: Need = neededBytes !== null
    ? { bytes: neededBytes, basis: "asked", n: null }
    : findNeed(name ?? "", policy, context.footprints);
  const facts = { ...context, policy };
  const outcome = model !== null
    ? planModel(model, facts)
    : workflow !== null
    ? planWorkflow({ ...state, policy }, facts)
    : planRoom(neededBytes ?? 0, facts);
  const { gpu } = context.sample;
  const headroomBytes = policy.yield.headroomBytes;
  return { need, freeBytes: freeOf(gpu), headroomBytes, ...outcome, holders: holdersOf(gpu) };
}

function withoutKey(needs: Readonly<Record<string, Bytes>>, name: string): Readonly<Record<string, Bytes>> {
  return Object.fromEntries(Object.entries(needs).filter(([key]) => key !== name));
}

/** As `switch-model` would go about it, as if each step gave back what its processes hold now. */
function planModel(model: string, facts: JobContext): Outcome {
  const early = refuseEarly(model, facts.sample);
  if (early !== null) return refused([], early);
  const steps: PlanStep[] = [];
  let freeBytes = freeOf(facts.sample.gpu);
  const [done, most] = [new Set<PlanStep["action"]>(), 4];
  for (let move = 0; move < most; move++) {
    const [hasYielded, hasPurged] = [done.has("yield"), done.has("purge")];
    const next = nextMove({ ...facts, model, freeBytes, hasYielded, hasPurged, isRetry: false, isReclaimed: false });
    if (next.kind === "refuse") return refused(steps, next.refusal);
    if (next.kind === "load") {
      steps.push({ action: "load", names: [model], freesBytes: null, reason: next.reason });
      break;
    }
    const step = next.kind === "yield" ? yieldStep(model, next.reason, facts) : purgeStep(next.reason, facts);
    steps.push(step);
    done.add(step.action);
    freeBytes = freeBytes === null || step.freesBytes === null ? null : freeBytes + step.freesBytes;
  }
  const isResident = steps.length === 1 && facts.sample.ollama.resident.some((row) => isSameModel(row.name, model));
  const message = `'${model}' is resident already: nothing would be loaded`;
  return isResident
    ? { verdict: "stays", steps, refusal: null, message }
    : settled(steps, `'${model}' would be loaded`);
}

function yieldStep(model: string, reason: string, { keep, sample }: JobContext): PlanStep {
  const { runners, resident } = sample.ollama;
  const scope = { models: null, keep: [...keep, model] };
  const targets = findTargets([], { runners, resident, names: sample.ollama, scope });
  const pids = targets.map(({ runner }) => runner.pid);
  const names = targets.map((target) => target.model ?? `pid ${target.runner.pid}`);
  return { action: "yield", names, freesBytes: bytesOfPids(pids, sample), reason };
}

function purgeStep(reason: string, { sample, comfyContextBytes }: JobContext): PlanStep {
  const { bytes } = comfyHoldings(sample);
  const freesBytes = bytes === null ? null : Math.max(0, bytes - (comfyContextBytes ?? 0));
  return { action: "purge", names: ["ComfyUI"], freesBytes, reason };
}

function bytesOfPids(pids: readonly number[], { gpu }: JobContext["sample"]): Bytes | null {
  if (!gpu.available) return null;
  let sum = 0;
  for (const { pid, usedBytes } of gpu.breakdown.processes) {
    if (!pids.includes(pid)) continue;
    if (usedBytes === null) return null;
    sum += usedBytes;
  }
  return sum;
}

/** As the status frame of a prompt would be answered. */
function planWorkflow(state: ArbiterState, facts: JobContext): Outcome {
  const { sample } = facts;
  const run: PlanStep = { action: "run", names: ["ComfyUI"], freesBytes: null, reason: "it starts by itself" };
  const choice = chooseYield(state, sample);
  switch (choice.kind) {
    case "nobody": {
      const isElsewhere = sample.comfy.isRemote || sample.ollama.isRemote;
      const message = isElsewhere
        ? "One of the two runs on another host: this card isn't shared, so nobody is asked to go"
        : "Ollama holds nothing that would have to go";
      return { verdict: "stays", steps: [run], refusal: null, message };
    }
    case "both_stay":
      return { verdict: "stays", steps: [run], refusal: null, message: choice.message };
    case "yield": {
      const { runners, resident } = sample.ollama;
      const scope = { models: null, keep: state.keep };
      const pids = findTargets([], { runners, resident, names: sample.ollama, scope }).map(({ runner }) => runner.pid);
      const reason = "ComfyUI's need doesn't fit beside it, or isn't known";
      const step: PlanStep = { action: "yield", names: choice.models, freesBytes: bytesOfPids(pids, sample), reason };
      return settled([step, run], "ComfyUI would run beside what is left");
    }
    default:
      return { verdict: "waits", steps: [run], refusal: null, message: choice.message };
  }
}

/** As `request-vram` would answer. */
function planRoom(neededBytes: Bytes, facts: JobContext): Outcome {
  const freeBytes = freeOf(facts.sample.gpu);
  if (fits(neededBytes, freeBytes, facts.policy)) {
    return { verdict: "stays", steps: [], refusal: null, message: "It is free already" };
  }
  const holders = describeHolders(holdersOf(facts.sample.gpu));
  const short = (message: string): Outcome => ({ verdict: "waits", steps: [], refusal: null, message });
  if (facts.isComfyBusy) {
    return short(`ComfyUI is executing and isn't purged meanwhile; the card is held by ${holders}`);
  }
  if (holdsModels(facts) === false) return short(`ComfyUI has nothing to give; the card is held by ${holders}`);
  const step = purgeStep("it isn't free, and ComfyUI is idle", facts);
  const afterBytes = freeBytes === null || step.freesBytes === null ? null : freeBytes + step.freesBytes;
  const isEnough = afterBytes !== null && afterBytes >= neededBytes;
  const left = `${toGib(afterBytes) ?? "an unknown number of"} GB would be free`;
  return isEnough ? settled([step], left) : {
    verdict: "waits",
    steps: [step],
    refusal: null,
    message: `${left}: not enough. The card is held by ${holders}`,
  };
}

function refused(steps: readonly PlanStep[], refusal: Refusal): Outcome {
  return { verdict: "refused", steps, refusal, message: refusal.message };
}

function settled(steps: readonly PlanStep[], then: string): Outcome {
  const making = steps.filter(({ action }) => action === "yield" || action === "purge");
  if (making.length === 0) {
    return { verdict: "stays", steps, refusal: null, message: `${then}: nobody would have to go` };
  }
  const parts = making.map(({ action, names, freesBytes }) => {
    const size = freesBytes === null ? "an unknown amount" : `${toGib(freesBytes)} GB`;
    return action === "yield" ? `Ollama would be asked for ${names.join(", ")} (${size})` : `ComfyUI for ${size}`;
  });
  return {
    verdict: "makes_room",
    steps,
    refusal: null,
    message: `${parts.join(", then ")}; after that ${lower(then)}`,
  };
}

function lower(text: string): string {
  return text.startsWith("ComfyUI") ? text : text.charAt(0).toLowerCase() + text.slice(1);
}
