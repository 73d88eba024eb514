/** What a sweep will try: checked against the card before anything is set. */
import type { Refusal } from "../model/arbitration.ts";
import type { SweepPlan, SweepRequest } from "../model/autotune.ts";
import type { LeverLimits, LeverValue } from "../model/card.ts";
import type { FailureCode } from "../model/failure.ts";
import { isSameModel } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import type { ArbiterState } from "./arbiter_state.ts";
import { canGenerate } from "./benchmark_plan.ts";
import type { TuningState } from "./card_state.ts";
import { isComfyBusy } from "./lane.ts";
import { allProfiles, valueOn, within } from "./profiles.ts";
import { refuseUnknown } from "./switch_plan.ts";

/** Values that are chosen where nothing was said: enough to see a slope. */
const USUAL_STEPS = 7;
/** A sweep of more values than this is a slip of the keyboard. */
const MOST_STEPS = 64;
/** Offsets that are tried where nothing was said; beyond them the card's own stability is the limit. */
const USUAL_OFFSET_MHZ = { core_offset_mhz: 210, mem_offset_mhz: 1_500 } as const;
/** Locks below this share of the card's highest clock are idle clocks: they'd take minutes a run, and nobody wants them. */
const LEAST_LOCK_SHARE = 0.4;

export interface SweepAround {
  readonly arbiter: ArbiterState;
  readonly card: TuningState;
}

type Adjustable = Extract<LeverLimits, { adjustable: true }>;

export function planSweep(
  id: string,
  request: SweepRequest,
  { arbiter, card }: SweepAround,
): { readonly plan: SweepPlan } | { readonly refusal: Refusal } {
  const { knob } = request;
  const limits = card.card?.limits.levers[knob];
  if (card.card === null || limits === undefined) {
    const why = card.reason ?? "it isn't there";
    return refused("unavailable", `Cannot set the card: ${why}`, "hyperswap health says what helps");
  }
  if (!limits.adjustable) {
    const code = limits.verdict === "not_permitted" ? "forbidden" : "unavailable";
    return refused(code, `${knob} can't be set on this card: ${limits.evidence}`, "hyperswap overclock shows what can");
  }
  const profile = allProfiles(card.profiles).find(({ name }) => name === request.profile);
  if (profile === undefined) {
    const names = allProfiles(card.profiles).map(({ name }) => name).join(", ");
    return refused("not_found", `There is no profile ${JSON.stringify(request.profile)}`, `There are ${names}`);
  }
  const control = atStock(limits, valueOn(limits, profile.values[knob] ?? "default") ?? "stock");
  const tried = candidatesFor(request, limits);
  if (!Array.isArray(tried)) return { refusal: tried };
  const candidates = tried.filter((value) => value !== control);
  if (candidates.length === 0) {
    return refused("invalid_input", "There is nothing to try beside the current setting", "Widen start and stop");
  }
  const objection = objectionTo({ arbiter, card }, request);
  if (objection !== null) return { refusal: objection };
  const farthest = farthestFrom(card.card.values[knob], { candidates, limits });
  return { plan: { id, request, control, candidates, farthest } };
}

/** Why a sweep can't begin now, however well it was asked for; null: it can. */
function objectionTo({ arbiter, card }: SweepAround, { workload, model }: SweepRequest): Refusal | null {
  if (arbiter.sample === null) return refusal("unavailable", "The first sample isn't in yet", "Try again in a second");
  const tenant = workload === "ollama" ? arbiter.sample.ollama : arbiter.sample.comfy;
  const name = workload === "ollama" ? "Ollama" : "ComfyUI";
  if (!tenant.online) {
    return refusal("unavailable", `${name} doesn't answer: ${tenant.reason ?? "no reason known"}`, `Start ${name}`);
  }
  if (tenant.isRemote) {
    return refusal("unavailable", `${name} runs on another host`, "What is measured there says nothing of this card");
  }
  const unfit = workload === "ollama" && model !== null ? objectionToModel(model, arbiter.sample) : null;
  if (unfit !== null) return unfit;
  if (isComfyBusy(arbiter)) {
    const hint = "A sweep would measure its work, too: try again when its queue is empty";
    return refusal("busy", "ComfyUI is executing", hint);
  }
  if (card.governor.level > 0 || card.governor.isBlind) {
    return refusal("busy", `The governor holds the card: ${card.governor.reason}`, "Wait until it has cooled down");
  }
  return null;
}

/** ComfyUI's checkpoints are known only when it is asked; Ollama's models are listed in every sample. */
function objectionToModel(model: string, sample: Sample): Refusal | null {
  const entry = sample.ollama.installed.find(({ name }) => isSameModel(name, model));
  if (entry === undefined) return refuseUnknown(model, sample);
  if (canGenerate(entry)) return null;
  const message = `${entry.name} generates no text here: there is no decoding to measure`;
  return refusal("invalid_input", message, "Name a model that does, or none: one is chosen");
}

/** The model that a sweep of Ollama takes by itself: one that is loaded, else the smallest; null: none generates. */
export function sweptModel({ installed, resident }: Sample["ollama"]): string | null {
  const usable = installed.filter(canGenerate).toSorted((a, b) => a.sizeBytes - b.sizeBytes);
  const loaded = usable.find(({ name }) => resident.some((row) => isSameModel(row.name, name)));
  return (loaded ?? usable[0])?.name ?? null;
}

/** In the order they are tried: from start to stop, both included. */
function candidatesFor(request: SweepRequest, limits: Adjustable): LeverValue[] | Refusal {
  const { knob } = request;
  const usual = usualRange(request, limits);
  const [start, stop] = [request.start ?? usual.start, request.stop ?? usual.stop];
  for (const [name, value] of [["start", start], ["stop", stop]] as const) {
    if (value >= limits.min && value <= limits.max) continue;
    const range = `from ${limits.min} to ${limits.max}`;
    return refusal("invalid_input", `${name} must be ${range} on this card, not ${value}`, `${knob} allows ${range}`);
  }
  const span = Math.abs(stop - start);
  const step = request.step ?? niceStep(span / USUAL_STEPS);
  if (Math.floor(span / step) + 1 > MOST_STEPS) {
    return refusal("invalid_input", `A step of ${step} gives more than ${MOST_STEPS} values`, "Take a larger step");
  }
  const toward = stop >= start ? 1 : -1;
  const count = Math.floor(span / step + 1e-9);
  const values = Array.from({ length: count + 1 }, (_, at) => start + toward * at * step);
  if (values.at(-1) !== stop) values.push(stop);
  return [...new Set(values.map((value) => atStock(limits, within(limits, value))))];
}

function usualRange({ knob }: SweepRequest, limits: Adjustable): { readonly start: number; readonly stop: number } {
  if (knob === "core_offset_mhz" || knob === "mem_offset_mhz") {
    return { start: Math.max(0, limits.min), stop: Math.min(limits.max, USUAL_OFFSET_MHZ[knob]) };
  }
  if (knob === "power_limit_w") return { start: limits.min, stop: limits.max };
  const useful = limits.steps?.filter((mhz) => mhz >= limits.max * LEAST_LOCK_SHARE) ?? [];
  return { start: useful[0] ?? limits.min, stop: limits.max };
}

/** 1, 2 or 5 times a power of ten, at least 1: values that people would have chosen. */
function niceStep(raw: number): number {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, raw)));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= raw);
  return Math.max(1, step ?? 10 * power);
}

/** `stock` where that is what the number comes to. */
function atStock(limits: Adjustable, value: LeverValue): LeverValue {
  return value === limits.stock ? "stock" : value;
}

/** An ignored lever shows best where the way is longest. A lock that can't be read is farthest at its lowest. */
function farthestFrom(
  reading: LeverValue | null,
  { candidates, limits }: { readonly candidates: readonly LeverValue[]; readonly limits: Adjustable },
): LeverValue {
  const numberOf = (value: LeverValue) => value === "stock" ? limits.stock ?? limits.max : value;
  const from = reading === null ? limits.max : numberOf(reading);
  return candidates.reduce((best, value) =>
    Math.abs(numberOf(value) - from) > Math.abs(numberOf(best) - from) ? value : best
  );
}

function refused(code: FailureCode, message: string, hint: string): { readonly refusal: Refusal } {
  return { refusal: refusal(code, message, hint) };
}

function refusal(code: FailureCode, message: string, hint: string): Refusal {
  return { code, message, hint: hint === "" ? null : hint, details: null };
}
