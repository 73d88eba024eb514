/**
 * Wishes → one value per lever with its reason, always inside the card's limits. The order (SPEC 4.6): restore, governor,
 * confirm-revert, sweep, operator, profile. A restore isn't here: it clears the wishes and puts every lever to stock.
 */
import { type Lever, type LeverLimits, LEVERS, type LeverValue } from "../model/card.ts";
import type { Profile } from "../model/tuning.ts";
import type { TuningState, Wish } from "./card_state.ts";
import { allProfiles, valueOn, within } from "./profiles.ts";

export interface ActiveProfile {
  readonly profile: Profile;
  readonly by: "operator" | "auto";
  readonly why: string;
}

/** The profile in force: what was applied by hand, else what the workload asks for. Null: none. */
export function activeProfile(state: TuningState): ActiveProfile | null {
  const named = (name: string) => allProfiles(state.profiles).find((profile) => profile.name === name);
  const byHand = state.hand.profile === null ? undefined : named(state.hand.profile);
  if (byHand !== undefined) return { profile: byHand, by: "operator", why: "Applied by hand" };
  const { profile: wanted, why } = state.workload;
  if (!state.hand.isAutomatic || state.isWithheld || state.sweep !== null || wanted === null) return null;
  if (state.quarantine.some(({ profile }) => profile === wanted)) return null;
  const followed = named(wanted);
  return followed === undefined ? null : { profile: followed, by: "auto", why };
}

/** Why the profile is what it is, also when there is none. */
export function whyActive(state: TuningState): string {
  const active = activeProfile(state);
  if (active !== null) return active.why;
  const { profile: wanted } = state.workload;
  if (!state.hand.isAutomatic) {
    return state.policy.isAutomatic
      ? "The card was restored by hand and stays at stock until a profile is applied"
      : "Following the workload is switched off (profiles.automatic)";
  }
  if (state.sweep !== null) return "A sweep holds the card";
  const quarantined = state.quarantine.find(({ profile }) => profile === wanted);
  if (quarantined !== undefined) return `${quarantined.profile} is quarantined: ${quarantined.reason}`;
  return state.isWithheld ? "Arbitration isn't in auto: nothing is set by itself" : state.workload.why;
}

/** The wish that wins for a lever; null: nobody wants anything of it. */
export function wishFor(lever: Lever, state: TuningState): Wish | null {
  const limits = state.card?.limits.levers[lever];
  if (limits === undefined || !limits.adjustable) return null;
  // Another tool's fans are not ours to give back.
  if (lever === "fan" && state.fansRestUntilMs !== null && state.asked.fan !== undefined) {
    return { value: "stock", by: "restore", text: "The machine goes to sleep" };
  }
  const below = belowGovernor(lever, { state, limits });
  const governed = governorWish(lever, { state, limits, below });
  return governed ?? below;
}

interface Around {
  readonly state: TuningState;
  readonly limits: Extract<LeverLimits, { adjustable: true }>;
}

function belowGovernor(lever: Lever, { state, limits }: Around): Wish | null {
  const swept = state.sweep?.setting[lever];
  if (swept !== undefined && !state.isReverting) {
    const value = swept === "stock" ? swept : within(limits, swept);
    return { value, by: "sweep", text: state.sweep?.text ?? "" };
  }
  const wish = fromHand(lever, { state, limits }) ?? fromProfile(lever, { state, limits });
  return wish !== null && state.isReverting
    ? { ...wish, by: "confirm_revert", text: `Not confirmed in time; ${wish.text}` }
    : wish;
}

function fromHand(lever: Lever, { state, limits }: Around): Wish | null {
  const asked = state.hand.levers[lever];
  const value = asked === undefined ? null : valueOn(limits, asked);
  return value === null ? null : { value, by: "operator", text: "Set by hand" };
}

function fromProfile(lever: Lever, { state, limits }: Around): Wish | null {
  const active = activeProfile(state);
  const asked = active?.profile.values[lever];
  const value = asked === undefined ? null : valueOn(limits, asked);
  if (active === null || value === null) return null;
  return {
    value,
    by: active.by === "operator" ? "operator" : "profile",
    text: `Profile ${active.profile.name}: ${active.why}`,
  };
}

/** Rung by rung (SPEC 4.4). It never lowers a fan, nor raises power above what somebody wished. */
function governorWish(
  lever: Lever,
  { state, limits, below }: Around & { readonly below: Wish | null },
): Wish | null {
  const { governor, policy: { governor: policy } } = state;
  const wish = (value: LeverValue): Wish => ({ value, by: "governor", text: governor.reason });
  if (governor.isBlind) {
    // Disabled, it leaves the card alone, but fans that somebody set must not stay where nobody sees the heat.
    return governor.enabled || lever === "fan" ? wish("stock") : null;
  }
  const byHand = below !== null && below.by !== "profile";
  if (governor.level === 0 || (state.isWithheld && !byHand)) return null;
  const lower = below === null || below.value === "stock" ? null : below.value;
  switch (lever) {
    case "fan":
      return wish(within(limits, Math.max(policy.fanPct, lower ?? 0)));
    case "power_limit_w": {
      const capW = governor.level >= 4 && limits.stock !== null ? limits.stock * (policy.powerPct / 100) : limits.stock;
      if (governor.level < 3) return null;
      if (capW === null) return wish("stock");
      const valueW = within(limits, Math.min(capW, lower ?? capW));
      return wish(valueW === limits.stock ? "stock" : valueW);
    }
    default:
      return governor.level >= 2 ? wish("stock") : null;
  }
}

/** What every lever is to be; levers that nobody wants anything of are left out. */
export function resolveWishes(state: TuningState): ReadonlyMap<Lever, Wish> {
  const wishes = new Map<Lever, Wish>();
  for (const lever of LEVERS) {
    const wish = wishFor(lever, state);
    if (wish !== null) wishes.set(lever, wish);
  }
  return wishes;
}
