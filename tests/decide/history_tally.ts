/** What random histories met, and what only shows over time: whoever creeps back is asked to go a bounded number of times. */
import assert from "node:assert/strict";
import type { ArbiterEffect, ArbiterEvent } from "../../lib/model/events.ts";
import { isSameModel } from "../../lib/model/model_names.ts";
import type { ArbiterState } from "../../lib/decide/arbiter_state.ts";
import { type Judge } from "./world.ts";
import { MODELS } from "./world_models.ts";

const MINUTE_MS = 60_000;
/** Re-yields for one insister within a minute (SPEC 2.4). */
const MOST_REYIELDS = 3;

export type Counts = Record<string, number>;

/** Counts what happened; one for all histories. */
export class Tally implements Judge {
  readonly counts: Counts = {};
  #reyieldsMs: number[] = [];

  onStep({ before, after, event, effects }: Parameters<Judge["onStep"]>[0]): void {
    this.#add("events");
    this.#add(`event ${event.type}`);
    if (event.type === "loadEnded") this.#add(event.outcome.ok ? "loads that ended well" : "loads that failed");
    for (const effect of effects) this.#note(effect, before);
    this.#boundReyields({ before, after, event });
    this.#judgeOwnPrompt({ before, after, event });
  }

  /** Our own prompt alone never makes Ollama yield. */
  #judgeOwnPrompt(
    { before, after, event }: {
      readonly before: ArbiterState;
      readonly after: ArbiterState;
      readonly event: ArbiterEvent;
    },
  ): void {
    const isOwn = event.type === "ownPrompt" ||
      event.type === "comfyActivity" && before.ownPrompt?.overMs === null && event.queueRemaining <= 1;
    if (!isOwn) return;
    this.#add("frames of our own prompts");
    const yields = ({ waiting }: ArbiterState) =>
      waiting.filter((entry) => entry.kind === "auto" && entry.job === "yield").length;
    const hasBegun = after.holder?.job.kind === "yield" && after.holder.job.cause.kind === "comfy_enqueued" &&
      after.holder.job.generation >= before.nextGeneration;
    assert.ok(yields(after) <= yields(before) && !hasBegun, "our own prompt made Ollama yield");
  }

  /** Another history begins. */
  begin(): void {
    this.#add("histories");
    this.#reyieldsMs = [];
  }

  #note(effect: ArbiterEffect, before: ArbiterState): void {
    switch (effect.kind) {
      case "record": {
        const { outcome, decision, late } = effect.item.fields;
        this.#add(
          `record ${[effect.item.kind, outcome, decision].filter((word) => typeof word === "string").join(" ")}`,
        );
        if (late === true) this.#add("late hand-offs");
        if (decision === "crept_back") this.#judgeIntruder(effect.item.fields["insists"], before);
        return;
      }
      case "resolve":
        return this.#add(
          effect.reply.kind === "refused" ? `refused ${effect.reply.refusal.code}` : `answered ${effect.reply.kind}`,
        );
      default:
        return this.#add(`effect ${effect.kind}`);
    }
  }

  /** A load of our own is no intruder. */
  #judgeIntruder(who: unknown, { holder }: ArbiterState): void {
    if (holder?.job.kind !== "switch" || typeof who !== "string") return;
    const { request, step } = holder.job;
    assert.ok(step.name !== "load" || !isSameModel(request.model, who), `our own load of ${who} was called creep-back`);
  }

  #boundReyields(
    { before, after, event }: {
      readonly before: ArbiterState;
      readonly after: ArbiterState;
      readonly event: ArbiterEvent;
    },
  ): void {
    const { holder } = after;
    const isNew = holder !== null && holder.job.generation !== before.holder?.job.generation;
    if (!isNew || holder.job.cause.kind !== "crept_back") return;
    this.#add("re-yields for creep-back");
    this.#reyieldsMs = [...this.#reyieldsMs.filter((atMs) => event.atMs - atMs < MINUTE_MS), event.atMs];
    const most = MOST_REYIELDS * MODELS.length;
    assert.ok(this.#reyieldsMs.length <= most, `${this.#reyieldsMs.length} re-yields within a minute`);
  }

  #add(name: string): void {
    this.counts[name] = (this.counts[name] ?? 0) + 1;
  }
}
