/** From wishes to writes: what differs from what was last asked for is written, one call of the writer at a time. */
import { type CardReason, type Lever, type LeverReport, LEVERS, type LeverValue } from "../model/card.ts";
import type { CardWrite, TuneEffect } from "../model/tuning.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { Asked, TuningState, TuningStep, Waiting, Wish } from "./card_state.ts";
import { activeProfile, resolveWishes, whyActive } from "./card_wishes.ts";

/** Writes what is due, or, when nothing is, answers whoever waited for it. */
export function settle(state: TuningState, atMs: MonotonicMs): TuningStep {
  if (state.isStopped || state.inFlight !== null) return { state, effects: [] };
  const due = state.card === null ? [] : dueWrites(state);
  if (due.length === 0) return conclude(state);
  const generation = state.generation + 1;
  const writes = grouped(due, activeProfile(state)?.profile.name ?? null);
  const asked: Partial<Record<Lever, Asked>> = { ...state.asked };
  for (const { lever, wish } of due) asked[lever] = { ...wish, atMs, isVoid: false };
  return {
    state: { ...state, asked, generation, inFlight: { kind: "apply", generation, writes } },
    effects: [{ kind: "applyCard", generation, writes }],
  };
}

interface Due {
  readonly lever: Lever;
  readonly wish: Wish;
}

function dueWrites(state: TuningState): readonly Due[] {
  const wishes = resolveWishes(state);
  return LEVERS.flatMap((lever) => {
    const wish = wishes.get(lever) ?? releaseOf(lever, state);
    return wish !== null && isDue(lever, { wish, state }) ? [{ lever, wish }] : [];
  });
}

/** A lever that we set and nobody wants any more goes back to stock; one that we never touched is left alone. */
function releaseOf(lever: Lever, state: TuningState): Wish | null {
  const asked = state.asked[lever];
  if (asked === undefined || (asked.value === "stock" && !asked.isVoid)) return null;
  if (state.card?.limits.levers[lever].adjustable !== true) return null;
  return { value: "stock", by: state.isReverting ? "confirm_revert" : "profile", text: whyActive(state) };
}

function isDue(lever: Lever, { wish, state }: { readonly wish: Wish; readonly state: TuningState }): boolean {
  const asked = state.asked[lever];
  if (asked !== undefined) return asked.isVoid || asked.value !== wish.value;
  // Stock where stock already is, or where nothing can be read and nothing was set: no reason to write.
  return wish.value !== "stock" || standsOffStock(lever, state);
}

function standsOffStock(lever: Lever, { card }: TuningState): boolean {
  const value = card?.values[lever] ?? null;
  const limits = card?.limits.levers[lever];
  if (value === null || value === "stock" || limits === undefined || !limits.adjustable) return false;
  return limits.stock === null || !isNear(lever, [value, limits.stock]);
}

/** Read-back counts as equal within what the driver rounds: offsets ±2 MHz, power to the watt. */
export function isNear(lever: Lever, [a, b]: readonly [LeverValue, LeverValue]): boolean {
  if (a === "stock" || b === "stock") return a === b;
  const tolerance = { core_offset_mhz: 2, mem_offset_mhz: 2, power_limit_w: 1, fan: 2 };
  const allowed = lever in tolerance ? tolerance[lever as keyof typeof tolerance] : 0; // just looked up
  return Math.abs(a - b) <= allowed;
}

/** One call of the writer for each reason, in the order of the levers. */
function grouped(due: readonly Due[], profile: string | null): readonly CardWrite[] {
  const writes: { setting: Partial<Record<Lever, LeverValue>>; reason: CardReason }[] = [];
  for (const { lever, wish: { value, by, text } } of due) {
    const same = writes.find(({ reason }) => reason.by === by && reason.text === text);
    if (same === undefined) writes.push({ setting: { [lever]: value }, reason: { by, profile, text } });
    else same.setting[lever] = value;
  }
  return writes;
}

/** Nothing is left to write: tells the history which profile is in force now, and answers who waited. */
function conclude(state: TuningState): TuningStep {
  const effects: TuneEffect[] = [];
  const active = activeProfile(state);
  const name = active?.profile.name ?? null;
  // Whoever asked for it is told of it below, once.
  if (name !== state.toldProfile && state.waiting.every(({ cause }) => cause === null)) {
    const levers = LEVERS.filter((lever) => active?.profile.values[lever] !== undefined);
    const reason = whyActive(state);
    effects.push(tell({
      event: name === null ? "No profile is in force" : `Profile ${name} is in force`,
      reason,
      fields: {
        profile: name,
        before: state.toldProfile,
        cause: active === null ? "none" : active.by === "auto" ? "workload" : "operator",
        levers: reportsFor(state, levers).map(fieldsOf),
      },
    }));
  }
  for (const waiting of state.waiting) effects.push(...answer(state, waiting));
  const isSame = effects.length === 0 && !state.isReverting;
  return {
    state: isSame ? state : { ...state, toldProfile: name, waiting: [], isReverting: false },
    effects,
  };
}

const REASONS: Readonly<Record<string, string>> = {
  confirm: "Confirmed in time",
  restore: "Asked for by hand: the card stays at stock until a profile is applied",
};

function answer(state: TuningState, waiting: Waiting): readonly TuneEffect[] {
  const reply = { kind: "done" as const, message: waiting.message, levers: waiting.levers };
  const answered: TuneEffect = { kind: "answerTuning", requestId: waiting.requestId, reply };
  if (waiting.cause === null) return [answered];
  const fields = {
    profile: activeProfile(state)?.profile.name ?? null,
    cause: waiting.cause,
    levers: reportsFor(state, waiting.levers).map(fieldsOf),
  };
  return [tell({ event: waiting.message, reason: REASONS[waiting.cause] ?? "Asked for by hand", fields }), answered];
}

function tell(
  { event, reason, fields }: {
    readonly event: string;
    readonly reason: string;
    readonly fields: Readonly<Record<string, unknown>>;
  },
): TuneEffect {
  return { kind: "recordTuning", event, reason, item: { kind: "profile", fields: { ...fields, reason } } };
}

/** The last report of each lever, where there is one. */
function reportsFor(state: TuningState, levers: readonly Lever[]): readonly LeverReport[] {
  return levers.flatMap((lever) => {
    const report = state.reports[lever];
    return report === undefined ? [] : [report];
  });
}

/** A report in wire form. */
function fieldsOf({ lever, wanted, readBack, verdict }: LeverReport): Readonly<Record<string, unknown>> {
  return { lever, wanted, read_back: readBack, verdict };
}
