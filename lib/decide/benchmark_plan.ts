/** Which models a benchmark goes between, and in which order: what was resident comes last, so that it is there again. */
import type { Refusal } from "../model/arbitration.ts";
import { isSameModel } from "../model/model_names.ts";
import type { Sample } from "../model/sample.ts";
import type { InstalledModel } from "../model/tenants.ts";
import { refusal, refuseUnknown } from "./switch_plan.ts";

export type BenchmarkPlan =
  /** The transitions of one round trip, in order; with one model, it is unloaded and loaded again. */
  | { readonly kind: "go"; readonly round: readonly string[] }
  | { readonly kind: "refuse"; readonly refusal: Refusal };

export interface BenchmarkFacts {
  readonly models: readonly string[] | null;
  readonly sample: Sample;
  readonly keep: readonly string[];
  readonly isComfyBusy: boolean;
}

export function planBenchmark({ models, sample, keep, isComfyBusy }: BenchmarkFacts): BenchmarkPlan {
  const { ollama } = sample;
  if (!ollama.online) {
    const hint = "Start Ollama, or set ollama.url to where it listens";
    return refuse(
      refusal("unavailable", `Ollama at ${ollama.url} doesn't answer: ${ollama.reason ?? "unknown"}`, { hint }),
    );
  }
  if (ollama.isRemote) {
    const hint = "Run it on the host that has the card";
    return refuse(refusal("unavailable", "Ollama runs on another host: this card has no part in its loads", { hint }));
  }
  if (isComfyBusy) {
    const hint = "Try again when its queue is empty: a benchmark wants the card to itself";
    return refuse(refusal("busy", "ComfyUI is executing", { hint }));
  }
  return models === null ? choose(sample, keep) : named(models, sample);
}

function refuse(why: Refusal): BenchmarkPlan {
  return { kind: "refuse", refusal: why };
}

function named(models: readonly string[], sample: Sample): BenchmarkPlan {
  const { installed } = sample.ollama;
  const found: string[] = [];
  for (const model of models) {
    const entry = installed.find(({ name }) => isSameModel(name, model));
    if (entry === undefined) return refuse(refuseUnknown(model, sample));
    if (entry.isRemote) {
      return refuse(refusal("invalid_input", `'${entry.name}' runs in the cloud: there is nothing to load`));
    }
    if (!found.includes(entry.name)) found.push(entry.name);
  }
  if (found.length === 0 || found.length > 2) {
    const hint = "Two for round trips between them, one to be unloaded and reloaded";
    return refuse(refusal("invalid_input", `A benchmark takes one or two models, not ${found.length}`, { hint }));
  }
  return { kind: "go", round: ordered(found, sample) };
}

/** The resident one and the smallest other, kept ones left out: nobody has asked for them to be unloaded. */
function choose(sample: Sample, keep: readonly string[]): BenchmarkPlan {
  const { installed, resident } = sample.ollama;
  const usable = installed
    .filter((entry) => canGenerate(entry) && !keep.some((name) => isSameModel(name, entry.name)))
    .toSorted((a, b) => a.sizeBytes - b.sizeBytes);
  const first = usable.find(({ name }) => resident.some((row) => isSameModel(row.name, name))) ?? usable[0];
  if (first === undefined) {
    const hint = "Name one with `models`, or pull one: `ollama pull qwen3:4b`";
    return refuse(refusal("not_found", "Ollama has no model that a benchmark could load", { hint }));
  }
  const other = usable.find(({ digest }) => digest !== first.digest);
  return { kind: "go", round: ordered(other === undefined ? [first.name] : [first.name, other.name], sample) };
}

/** An embedding model is loaded in another way and says no tokens a second. */
export function canGenerate({ isRemote, family, name }: InstalledModel): boolean {
  return !isRemote && !/bert|embed/i.test(`${family ?? ""} ${name}`);
}

function ordered(models: readonly string[], { ollama }: Sample): readonly string[] {
  const [first, second] = models;
  const isResident = (name: string) => ollama.resident.some((row) => isSameModel(row.name, name));
  return first !== undefined && second !== undefined && isResident(first) ? [second, first] : models;
}
