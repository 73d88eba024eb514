/**
 * Whether a request may go now. What is resident, or fits beside what is there, goes at once (SPEC 2.2, 2.10); what
 * needs the other tenant's memory waits until the driver has it back.
 */
import type { AdmissionRequest, OpenReason, PassReason } from "../model/admission.ts";
import { canonical, isSameModel } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import type { Tenant } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { ArbiterState } from "./arbiter_state.ts";
import { counting } from "./footprint.ts";
import type { Flyer, GateState, Waiter } from "./gate_state.ts";
import { isComfyBusy } from "./lane.ts";
import { COMFY_KEY, findNeed, fits, freeOf, needOf } from "./need.ts";
import { comfyHoldings, holdsModels } from "./purge_job.ts";
import { chooseYield } from "./triggers.ts";
import { isRowTaken, matchRows } from "./yield_targets.ts";

/** A sample this old means that nobody samples any more. */
const STALE_MS = 5_000;

export type Word =
  /** `takesNothing`: it may go whoever waits for the card, since it takes nothing of it. */
  | { readonly kind: "pass"; readonly reason: PassReason; readonly why: string; readonly takesNothing: boolean }
  /** `wants`: whom the card has to be handed to first; null where time alone brings it on. */
  | { readonly kind: "wait"; readonly why: string; readonly wants: Tenant | null }
  /** For one that was refused for want of memory: there is none to be had. */
  | { readonly kind: "give_up"; readonly why: string };

/** What the gate looks at: its own book, the arbiter's, and the time. */
export interface Scene {
  readonly gate: GateState;
  readonly arbiter: ArbiterState;
  readonly atMs: MonotonicMs;
}

/** Why the gate has to stand open, for everybody; null while it may decide. */
export function reasonToOpen({ gate, arbiter, atMs }: Scene): [OpenReason, string] | null {
  const { sample, mode } = arbiter;
  if (gate.isStopped || arbiter.isStopped) return ["stopping", "HyperSwap is shutting down"];
  if (mode !== "auto") return [mode, `Arbitration is in mode ${mode}`];
  if (sample === null) return ["blind", "The first sample isn't in yet"];
  if (atMs - sample.monotonicMs >= STALE_MS) return ["stuck", "HyperSwap has stopped sampling"];
  if (sample.comfy.isRemote || sample.ollama.isRemote) return ["remote", "One of the two runs on another host"];
  if (!sample.gpu.available) return ["blind", `The card can't be read: ${sample.gpu.reason}`];
  const { memory, processes } = sample.gpu.reading;
  return memory === null || processes === null ? ["blind", "The driver doesn't say who holds what"] : null;
}

export function judge(entry: Waiter, scene: Scene): Word {
  const { sample } = scene.arbiter;
  if (sample === null) return pass("blind", "The first sample isn't in yet");
  const { tenant } = entry.request;
  const obstacle = scene.gate.obstacles[tenant];
  const word = tenant === "comfyui" ? judgePrompt(entry, scene, sample) : judgeCall(entry, scene, sample);
  if (word.kind !== "wait" || word.wants === null || obstacle === null) return word;
  if (obstacle.kind === "busy") return wait(obstacle.message, null);
  return entry.for === "retry" ? giveUp(obstacle.message) : pass(obstacle.kind, obstacle.message);
}

function judgePrompt(entry: Waiter, scene: Scene, sample: Sample): Word {
  const { gate, arbiter } = scene;
  const { ollama, comfy } = sample;
  const isRetry = entry.for === "retry";
  if (!comfy.online) return isRetry ? giveUp("ComfyUI doesn't answer") : pass("free", "ComfyUI doesn't answer");
  if (gate.handOff?.to === "ollama") return wait("the card is being handed to Ollama", null);
  const calls = callsInFlight(gate, arbiter, sample);
  if (!isRetry) {
    const isYielding = arbiter.holder?.job.kind === "yield";
    if (isComfyAtWork(scene) && !isYielding) return pass("resident", "ComfyUI is at work already");
    if (!ollama.online && ollama.runners.length === 0) return pass("free", "Ollama doesn't run");
    const isLoading = calls.some((call) => !isListed(call.request.model, sample));
    const choice = chooseYield(arbiter, sample);
    if (choice.kind === "both_stay" && !isLoading) return pass("fits", "its need fits beside Ollama");
  }
  if (calls.length > 0) {
    return wait(`Ollama answers ${calls.length === 1 ? "a request" : `${calls.length} requests`}`, null);
  }
  return wait("the driver hasn't Ollama's memory back yet", "comfyui");
}

/** Requests that Ollama works on, of models that have to go. */
function callsInFlight({ inFlight }: GateState, { keep }: ArbiterState, sample: Sample): readonly Flyer[] {
  return inFlight.filter((entry) =>
    entry.request.tenant === "ollama" && !isKept(entry.request.model, keep) &&
    !isElsewhere(entry.request.model, sample)
  );
}

function judgeCall(entry: Waiter, scene: Scene, sample: Sample): Word {
  const { gate, arbiter, atMs } = scene;
  const { request } = entry;
  const isRetry = entry.for === "retry";
  if (!sample.ollama.online) return isRetry ? giveUp("Ollama doesn't answer") : pass("free", "Ollama doesn't answer");
  if (isElsewhere(request.model, sample)) return pass("free", "its model runs elsewhere", true);
  if (!isRetry) {
    const isThere = isResident(entry, scene, sample);
    if (isThere && isKept(request.model, arbiter.keep)) return pass("resident", "its model stays", true);
    if (isLeaving(scene)) return wait("the card is being handed to ComfyUI", null);
    if (isThere) return pass("resident", "its model is on the card");
    if (fitsBeside(entry, scene, sample)) {
      return atMs >= arbiter.loserOutUntilMs
        ? pass("fits", "its need fits beside what is there")
        : wait("ComfyUI may not see yet what others take", null);
    }
  }
  if (isComfyAtWork(scene)) return wait("ComfyUI is at work", null);
  const { comfy, policy } = arbiter;
  const isBare = gate.comfyBareMs !== null && sample.monotonicMs <= gate.comfyBareMs ||
    holdsModels({ sample, policy, comfyContextBytes: comfy.context?.bytes ?? null }) === false;
  if (!sample.comfy.online || isBare) {
    return isRetry
      ? giveUp("ComfyUI holds nothing that could be had back")
      : pass("free", "nobody holds what could go");
  }
  return wait("the driver hasn't ComfyUI's memory back yet", "ollama");
}

/** ComfyUI has work, or is about to: a prompt that went through here may not stand in its queue yet. */
export function isComfyAtWork({ gate, arbiter }: Pick<Scene, "gate" | "arbiter">): boolean {
  return isComfyBusy(arbiter) || gate.promptSentMs !== null ||
    gate.inFlight.some((entry) => entry.request.tenant === "comfyui");
}

/** Ollama's models are on their way out, or have just gone: the sample may not show it yet. */
function isLeaving({ gate, arbiter, atMs }: Scene): boolean {
  const { holder, loserOutUntilMs } = arbiter;
  const isYielding = holder?.job.kind === "yield" && holder.job.scope.models === null;
  return gate.handOff?.to === "comfyui" || isYielding || atMs < loserOutUntilMs && isComfyAtWork({ gate, arbiter });
}

function isKept(model: string | null, keep: readonly string[]): boolean {
  return model !== null && keep.some((name) => isSameModel(name, model));
}

/** Installed as a stub of one that runs in the cloud. */
function isElsewhere(model: string | null, { ollama }: Sample): boolean {
  return model !== null && ollama.installed.some((entry) => entry.isRemote && isSameModel(entry.name, model));
}

/** Whether `/api/ps` lists it, and its runner lives. */
function isListed(model: string | null, { ollama, sources }: Sample): boolean {
  return model !== null && rowFor(model, { ollama, sources }) !== null;
}

function rowFor(model: string, { ollama, sources }: Pick<Sample, "ollama" | "sources">) {
  const { resident, runners } = ollama;
  const row = resident.find((entry) => isRowTaken(entry, { models: [model], keep: [] }, ollama)) ?? null;
  if (row === null || !sources.processes.ok) return row;
  // A runner that crashed stays listed.
  const isAlive = [...matchRows(runners, resident, ollama).values()].includes(row);
  return isAlive ? row : null;
}

/** On the card already, or being loaded by a request before it; more context than it was loaded with is another load. */
function isResident({ request }: Waiter, { gate }: Scene, sample: Sample): boolean {
  const { model, contextLength } = request;
  if (model === null) return false;
  const row = rowFor(model, sample);
  const isLarger = row !== null && contextLength !== null && row.contextLength !== null &&
    contextLength > row.contextLength;
  if (row !== null) return !isLarger;
  return gate.inFlight.some((entry) => entry.request.model !== null && isSameModel(entry.request.model, model));
}

/** Room is counted less what those before it are about to take, and less what a working ComfyUI may still take. */
function fitsBeside({ request }: Waiter, { gate, arbiter }: Scene, sample: Sample): boolean {
  const { policy, footprints } = arbiter;
  const need = needOfCall(request, arbiter);
  const freeBytes = freeOf(sample.gpu);
  if (need === null || freeBytes === null) return false;
  let taken: Bytes = 0;
  for (const { request: other } of gate.inFlight) {
    if (other.tenant !== "ollama" || isListed(other.model, sample)) continue;
    const otherNeed = needOfCall(other, arbiter);
    if (otherNeed === null) return false;
    taken += otherNeed;
  }
  if (isComfyAtWork({ gate, arbiter })) {
    const comfyNeed = needOf(COMFY_KEY, policy, footprints);
    if (comfyNeed === null) return false;
    taken += Math.max(0, comfyNeed - (comfyHoldings(sample).bytes ?? 0));
  }
  return fits(need + taken, freeBytes, policy);
}

/** Null: unknown. What was measured says nothing of more context than it was measured with. */
function needOfCall(
  { model, contextLength }: Pick<AdmissionRequest, "model" | "contextLength">,
  { policy, footprints }: Pick<ArbiterState, "policy" | "footprints">,
): Bytes | null {
  if (model === null) return null;
  const { bytes, basis } = findNeed(model, policy, footprints);
  if (basis !== "measured" || contextLength === null) return bytes;
  const measured = counting(footprints, canonical(model)).at(-1)?.contextLength ?? null;
  return measured === null || contextLength > measured ? null : bytes;
}

function pass(reason: PassReason, why: string, takesNothing = false): Word {
  return { kind: "pass", reason, why, takesNothing };
}

function wait(why: string, wants: Tenant | null): Word {
  return { kind: "wait", why, wants };
}

function giveUp(why: string): Word {
  return { kind: "give_up", why };
}
