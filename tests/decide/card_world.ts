/** A card made of plain values, and a reducer that a test drives event by event. */
import type { CardLimits, CardSetting, CardState, Lever, LeverReport, LeverValue } from "../../lib/model/card.ts";
import { LEVERS } from "../../lib/model/card.ts";
import type { Mode } from "../../lib/model/policy.ts";
import type { Sample } from "../../lib/model/sample.ts";
import {
  DEFAULT_TUNING,
  type TuneEffect,
  type TuneReply,
  type TuneRequest,
  type TuningPolicy,
} from "../../lib/model/tuning.ts";
import { type CardHears, reduceCard } from "../../lib/decide/card.ts";
import { initialTuning, type TuningState } from "../../lib/decide/card_state.ts";
import { GPU, sample } from "../operations/fake_values.ts";

const STEPS = [210, 600, 1200, 1800, 2400, 3105];

export const LIMITS: CardLimits = {
  uuid: "GPU-0000",
  name: "Test Card 16 GB",
  fanCount: 2,
  levers: {
    power_limit_w: { adjustable: true, min: 150, max: 370, stock: 320, steps: null },
    lock_core_mhz: { adjustable: true, min: 210, max: 3105, stock: null, steps: STEPS },
    lock_mem_mhz: { adjustable: true, min: 405, max: 11501, stock: null, steps: [405, 5001, 11251, 11501] },
    core_offset_mhz: { adjustable: true, min: -1000, max: 1000, stock: 0, steps: null },
    mem_offset_mhz: { adjustable: true, min: -2000, max: 6000, stock: 0, steps: null },
    fan: { adjustable: true, min: 30, max: 100, stock: null, steps: null },
  },
};

export const STOCK: Readonly<Record<Lever, LeverValue | null>> = {
  power_limit_w: 320,
  lock_core_mhz: "stock",
  lock_mem_mhz: "stock",
  core_offset_mhz: 0,
  mem_offset_mhz: 0,
  fan: "stock",
};

/** A setting as the card reads it back. */
export function readBackOf(lever: Lever, value: LeverValue): LeverValue {
  const limits = LIMITS.levers[lever];
  return value === "stock" && limits.adjustable && limits.stock !== null ? limits.stock : value;
}

export function report(lever: Lever, wanted: LeverValue, change: Partial<LeverReport> = {}): LeverReport {
  const readBack = readBackOf(lever, wanted);
  return { lever, wanted, readBack, verdict: "honoured", evidence: "as set", remedy: null, atMs: 0, ...change };
}

export function cardState(values: Partial<Record<Lever, LeverValue | null>> = {}): CardState {
  return { atMs: 0, values: { ...STOCK, ...values }, reports: {}, changed: [], xidSource: "nvml" };
}

export interface Second {
  readonly temperatureC?: number | null;
  readonly memoryC?: number | null;
  readonly throttle?: number;
  readonly comfy?: boolean;
  readonly ollama?: boolean;
  readonly isLost?: boolean;
}

/** A sample with a temperature and somebody at work, or nobody. */
export function second({ temperatureC = 50, memoryC = null, throttle = 0, ...who }: Second = {}): Sample {
  const base = sample();
  if (!GPU.available) throw new TypeError("The fake card is there");
  const processes = GPU.breakdown.processes.map((process) =>
    process.bucket === "ollama" ? { ...process, smPct: who.ollama === true ? 60 : 0 } : process
  );
  const gpu = who.isLost === true
    ? { available: false as const, kind: "lost" as const, reason: "off the bus", remedy: "reboot", facts: GPU.facts }
    : {
      ...GPU,
      reading: { ...GPU.reading, temperatureC, memoryTemperatureC: memoryC, throttleReasons: throttle },
      breakdown: { ...GPU.breakdown, processes },
    };
  return { ...base, gpu, comfy: { ...base.comfy, executing: who.comfy === true, queueRemaining: who.comfy ? 1 : 0 } };
}

export interface World {
  readonly state: TuningState;
  readonly nowMs: number;
  /** What the card holds. */
  readonly card: Record<Lever, LeverValue | null>;
  /** Every effect so far. */
  readonly effects: readonly TuneEffect[];
  readonly replies: ReadonlyMap<string, TuneReply>;
  mode: Mode;
  /** What the card makes of a write; the default honours it. */
  answerWith: (lever: Lever, value: LeverValue) => LeverReport;
  send(event: Unstamped): void;
  /** Lets seconds pass, each with such a sample; the card answers at once. */
  pass(seconds: number, what?: Second): void;
  ask(request: TuneRequest): TuneReply | null;
  /** Settings written so far, oldest first. */
  written(): readonly CardSetting[];
}

/** An event without its time: the world stamps it. */
type Unstamped = CardHears extends infer E ? E extends CardHears ? Omit<E, "atMs"> : never : never;

/** A world whose card has been opened at stock. */
export function openWorld(
  { policy = {}, values = {}, isOpen = true }: {
    readonly policy?: Partial<TuningPolicy>;
    readonly values?: Partial<Record<Lever, LeverValue>>;
    readonly isOpen?: boolean;
  } = {},
): World {
  let state = initialTuning({ ...DEFAULT_TUNING, ...policy }, { profiles: [], quarantine: [] }, { hasWriter: true });
  let nowMs = 1_000_000;
  let asked = 0;
  const effects: TuneEffect[] = [];
  const replies = new Map<string, TuneReply>();
  const card = { ...STOCK, ...values };
  const queue: CardHears[] = [];
  const drain = () => {
    for (let event = queue.shift(); event !== undefined; event = queue.shift()) {
      const step = reduceCard(state, event, { mode: world.mode });
      state = step.state;
      effects.push(...step.effects);
      for (const effect of step.effects) perform(effect);
    }
  };
  const set = (lever: Lever, value: LeverValue) => {
    const told = world.answerWith(lever, value);
    if (told.readBack !== null) card[lever] = told.readBack;
    return told;
  };
  const perform = (effect: TuneEffect) => {
    switch (effect.kind) {
      case "openCard":
        queue.push({ type: "cardOpened", atMs: nowMs, limits: LIMITS, state: cardState(card), uncleanEnd: null });
        return;
      case "readCard":
        queue.push({ type: "cardRead", atMs: nowMs, state: cardState(card), suspects: ["lactd (pid 7)"] });
        return;
      case "applyCard": {
        const reports = effect.writes.flatMap(({ setting }) =>
          LEVERS.flatMap((lever) => setting[lever] === undefined ? [] : [set(lever, setting[lever])])
        );
        queue.push({ type: "cardApplied", atMs: nowMs, generation: effect.generation, reports, error: null });
        return;
      }
      case "restoreCard": {
        const reports = LEVERS.map((lever) => set(lever, "stock"));
        queue.push({ type: "cardRestored", atMs: nowMs, generation: effect.generation, reports, error: null });
        return;
      }
      case "answerTuning":
        if (replies.has(effect.requestId)) throw new TypeError(`${effect.requestId} was answered twice`);
        replies.set(effect.requestId, effect.reply);
        return;
    }
  };
  const world: World = {
    get state() {
      return state;
    },
    get nowMs() {
      return nowMs;
    },
    card,
    effects,
    replies,
    mode: "auto",
    answerWith: report,
    send(event) {
      // The time completes the member it was left out of.
      queue.push({ ...event, atMs: nowMs } as CardHears);
      drain();
    },
    pass(seconds, what = {}) {
      for (let count = 0; count < seconds; count++) {
        nowMs += 1_000;
        world.send({ type: "sampled", sample: second(what) });
      }
    },
    ask(request) {
      const requestId = `r${++asked}`;
      world.send({ type: "tuneAsked", requestId, request });
      return replies.get(requestId) ?? null;
    },
    written: () =>
      effects.flatMap((effect) => effect.kind === "applyCard" ? effect.writes.map(({ setting }) => setting) : []),
  };
  if (isOpen) world.pass(1);
  return world;
}
