/** Random histories of the card: whatever happens, in whatever order, these promises hold. */
import assert from "node:assert/strict";
import { type CardHears, reduceCard } from "../../lib/decide/card.ts";
import { initialTuning, type TuningState } from "../../lib/decide/card_state.ts";
import { resolveWishes } from "../../lib/decide/card_wishes.ts";
import { type Lever, LEVERS, type LeverValue, type LeverVerdict } from "../../lib/model/card.ts";
import type { Mode } from "../../lib/model/policy.ts";
import { DEFAULT_TUNING, type ProfileValue, type TuneEffect, type TuneRequest } from "../../lib/model/tuning.ts";
import { cardState, LIMITS, readBackOf, report, second, STOCK } from "./card_world.ts";

const POLICY = { ...DEFAULT_TUNING, idleMs: 6_000, reapply: true };

/** One event as it was sent, for the replay. */
interface Sent {
  readonly event: CardHears;
  readonly mode: Mode;
}

/** What one history showed, so that a suite can say that it met everything. */
export interface HistoryFigures {
  readonly writes: number;
  readonly climbs: number;
  readonly blinds: number;
  readonly switches: number;
  readonly reverts: number;
}

/** Plays one seeded history and throws where a promise is broken. */
export function playCardHistory(seed: number, steps: number): HistoryFigures {
  return new CardHistory(seed).play(steps);
}

class CardHistory {
  readonly #random: () => number;
  readonly #sent: Sent[] = [];
  readonly #card: Record<Lever, LeverValue | null> = { ...STOCK };
  readonly #asked = new Set<string>();
  readonly #figures = { writes: 0, climbs: 0, blinds: 0, switches: 0, reverts: 0 };
  #pending: CardHears[] = [];
  #state = start();
  #atMs = 0;
  #mode: Mode = "auto";
  #mood = { temperatureC: 60 as number | null, comfy: false, ollama: false, isLost: false, throttle: 0 };
  #newest = 0;
  #hasStopped = false;

  constructor(seed: number) {
    this.#random = mulberry(seed);
  }

  play(steps: number): HistoryFigures {
    for (let step = 0; step < steps; step++) {
      this.#atMs += Math.floor(this.#random() * 1_500);
      const chosen = this.#random();
      if (chosen < 0.7) this.#sample();
      else if (chosen < 0.9 && this.#pending.length > 0) this.#deliver();
      else this.#surprise();
    }
    this.#send({ type: "stopped", atMs: this.#atMs });
    this.#hasStopped = true;
    for (let step = 0; step < 5; step++) this.#sample();
    while (this.#pending.length > 0) this.#deliver();
    assert.deepEqual([...this.#asked], [], "every request is answered");
    assert.deepEqual(replayed(this.#sent), JSON.stringify(this.#state), "the same events lead to the same state");
    return this.#figures;
  }

  #sample(): void {
    if (this.#chance(0.05)) this.#mood.temperatureC = this.#pick([45, 60, 80, 84, 88, 92, 99, null]);
    if (this.#chance(0.05)) this.#mood.throttle = this.#pick([0, 0, 0x4, 0x20, 0x40, 0x80]);
    if (this.#chance(0.1)) this.#mood.comfy = !this.#mood.comfy;
    if (this.#chance(0.1)) this.#mood.ollama = !this.#mood.ollama;
    if (this.#chance(this.#mood.isLost ? 0.3 : 0.01)) this.#mood.isLost = !this.#mood.isLost;
    this.#atMs += 1_000;
    this.#send({ type: "sampled", atMs: this.#atMs, sample: second(this.#mood) });
  }

  #surprise(): void {
    const atMs = this.#atMs;
    const kind = this.#random();
    if (kind < 0.6) {
      const requestId = `r${this.#sent.length}`;
      this.#asked.add(requestId);
      this.#send({ type: "tuneAsked", atMs, requestId, request: this.#request() });
    } else if (kind < 0.7) {
      const lever = this.#pick(LEVERS);
      this.#card[lever] = readBackOf(lever, this.#chance(0.5) ? "stock" : this.#value(lever));
    } else if (kind < 0.75) {
      this.#send({ type: "cardNews", atMs, news: { kind: "xid", atMs: 0, code: 62, source: "nvml" } });
    } else if (kind < 0.8) {
      this.#send({ type: "cardNews", atMs, news: { kind: "reopened", atMs: 0 } });
    } else if (kind < 0.85) {
      const told = report("fan", "stock");
      this.#card.fan = "stock";
      this.#send({ type: "cardNews", atMs, news: { kind: "fans_released", atMs: 0, reason: "frozen", report: told } });
    } else if (kind < 0.92) {
      const lever = this.#pick(LEVERS);
      const setting = this.#chance(0.5) ? null : { [lever]: this.#chance(0.3) ? 99_999 : this.#value(lever) };
      this.#send({ type: "sweepHolds", atMs, setting, text: "a step" });
    } else this.#mode = this.#pick(["auto", "auto", "observe", "paused"]);
  }

  #request(): TuneRequest {
    const confirmMs = this.#chance(0.4) ? 10_000 : null;
    const name = this.#pick(["ollama", "comfy", "balanced", "auto", "mine", "other"]);
    const lever = this.#pick(LEVERS);
    // Out of range on purpose, too: what isn't refused must still end up inside.
    const value: ProfileValue = this.#chance(0.3) ? this.#pick(["default", "max"]) : this.#value(lever) * 1.1;
    return this.#pick<TuneRequest>([
      { kind: "profile", name, confirmMs },
      { kind: "lever", lever, value, confirmMs },
      { kind: "lever", lever: "fan", value: 30 + Math.floor(this.#random() * 71), confirmMs },
      { kind: "save", name, values: { [lever]: value }, confirmMs },
      { kind: "delete", name },
      { kind: "confirm" },
      { kind: "governor", enabled: this.#chance(0.5) ? null : this.#chance(0.7), reset: this.#chance(0.2) },
      { kind: "restore", scope: this.#pick(["all", "journal"]) },
    ]);
  }

  #value(lever: Lever): number {
    const limits = LIMITS.levers[lever];
    if (!limits.adjustable) return 0;
    return Math.round(limits.min + this.#random() * (limits.max - limits.min));
  }

  #deliver(): void {
    const event = this.#pending.shift();
    // What comes back comes later than what was sent.
    if (event !== undefined) this.#send({ ...event, atMs: this.#atMs });
  }

  #send(event: CardHears): void {
    this.#sent.push({ event, mode: this.#mode });
    const before = this.#state;
    const step = reduceCard(before, event, { mode: this.#mode });
    this.#state = step.state;
    this.#watch(before, event);
    for (const effect of step.effects) this.#perform(effect);
  }

  #watch(before: TuningState, event: CardHears): void {
    const { governor, workload, card } = this.#state;
    if (event.type === "sampled" && governor.changedAtMs !== before.governor.changedAtMs) {
      const wentBlind = governor.isBlind && !before.governor.isBlind;
      const sinceMs = this.#atMs - (before.governor.changedAtMs ?? -Infinity);
      assert.ok(
        wentBlind || sinceMs >= POLICY.governor.cooldownMs,
        `governor moved ${sinceMs} ms after its last change`,
      );
      assert.ok(wentBlind || Math.abs(governor.level - before.governor.level) <= 1, "one rung at a time");
      if (governor.level > before.governor.level) this.#figures.climbs++;
      if (wentBlind) this.#figures.blinds++;
    }
    if (workload.profile !== before.workload.profile) {
      const sinceMs = this.#atMs - (before.workload.changedAtMs ?? -Infinity);
      assert.ok(sinceMs >= POLICY.dwellMs, `the profile switched ${sinceMs} ms after its last switch`);
      this.#figures.switches++;
    }
    if (this.#state.isReverting && !before.isReverting) this.#figures.reverts++;
    if (governor.isBlind && governor.enabled && card !== null) {
      const wishes = [...resolveWishes(this.#state).values()];
      assert.ok(wishes.every(({ value }) => value === "stock"), "blind means stock");
    }
  }

  #perform(effect: TuneEffect): void {
    const atMs = this.#atMs;
    switch (effect.kind) {
      case "openCard": {
        const uncleanEnd = this.#chance(0.1) ? { atMs: 0, profile: this.#pick(["comfy", null]) } : null;
        for (const lever of LEVERS) this.#card[lever] = STOCK[lever];
        const event = { type: "cardOpened", atMs, limits: LIMITS, state: cardState(this.#card), uncleanEnd } as const;
        return void this.#pending.push(this.#chance(0.1) ? { type: "cardClosed", atMs, reason: "not ready" } : event);
      }
      case "readCard":
        return void this.#pending.push({ type: "cardRead", atMs, state: cardState(this.#card), suspects: [] });
      case "applyCard":
        return this.#apply(effect);
      case "restoreCard": {
        this.#newest = effect.generation;
        this.#pending = this.#pending.filter(({ type }) => type !== "cardApplied");
        for (const lever of LEVERS) this.#card[lever] = STOCK[lever];
        const reports = LEVERS.map((lever) => report(lever, "stock"));
        return void this.#pending.push({
          type: "cardRestored",
          atMs,
          generation: effect.generation,
          reports,
          error: null,
        });
      }
      case "answerTuning":
        assert.ok(this.#asked.delete(effect.requestId), `${effect.requestId} is answered once`);
        return;
    }
  }

  #apply(effect: Extract<TuneEffect, { kind: "applyCard" }>): void {
    assert.ok(!this.#hasStopped, "nothing is set after the end");
    assert.ok(effect.generation > this.#newest, "generations go up");
    assert.ok(!this.#pending.some(({ type }) => type === "cardApplied"), "one write at a time");
    this.#newest = effect.generation;
    const reports = effect.writes.flatMap(({ setting }) =>
      LEVERS.flatMap((lever) => {
        const value = setting[lever];
        return value === undefined ? [] : [this.#write(lever, value)];
      })
    );
    const error = this.#chance(0.03) ? "the driver is away" : null;
    const { generation } = effect;
    this.#pending.push({ type: "cardApplied", atMs: this.#atMs, generation, reports: error ? [] : reports, error });
  }

  #write(lever: Lever, value: LeverValue) {
    this.#figures.writes++;
    const limits = LIMITS.levers[lever];
    assert.ok(limits.adjustable);
    if (value !== "stock") {
      assert.ok(value >= limits.min && value <= limits.max, `${lever} ${value} is inside the card's limits`);
      assert.ok(limits.steps === null || limits.steps.includes(value), `${lever} ${value} is one of the card's steps`);
    }
    const verdict = this.#pick<LeverVerdict>([
      "honoured",
      "honoured",
      "honoured",
      "ignored",
      "failed",
      "not_permitted",
    ]);
    if (verdict === "honoured") this.#card[lever] = readBackOf(lever, value);
    return report(lever, value, { verdict, readBack: this.#card[lever] });
  }

  #chance(share: number): boolean {
    return this.#random() < share;
  }

  #pick<T>(from: readonly T[]): T {
    return from[Math.floor(this.#random() * from.length)]!;
  }
}

function start(): TuningState {
  return initialTuning(POLICY, { profiles: [], quarantine: [] }, { hasWriter: true });
}

function replayed(sent: readonly Sent[]): string {
  return JSON.stringify(sent.reduce((state, { event, mode }) => reduceCard(state, event, { mode }).state, start()));
}

/** A small seeded generator (mulberry32). */
function mulberry(seed: number): () => number {
  let at = seed >>> 0;
  return () => {
    at = (at + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(at ^ (at >>> 15), at | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
