/** The card's tuning as everyone sees it. */
import { type Lever, LEVERS } from "../model/card.ts";
import type { GovernorView, LeverView, TuningView } from "../model/tuning_view.ts";
import type { MonotonicMs, WallMs } from "../model/units.ts";
import type { TuningState } from "./card_state.ts";
import { activeProfile, whyActive, wishFor } from "./card_wishes.ts";
import { allProfiles } from "./profiles.ts";

export function viewTuning(state: TuningState, toWall: (ms: MonotonicMs) => WallMs): TuningView {
  const active = activeProfile(state);
  return {
    isReady: state.card !== null,
    reason: state.card === null ? state.reason : null,
    active: active?.profile.name ?? null,
    activeBy: active?.by ?? null,
    why: whyActive(state),
    isAutomatic: state.hand.isAutomatic && state.hand.profile === null,
    profiles: allProfiles(state.profiles).map((profile) => ({
      ...profile,
      quarantinedFor: state.quarantine.find((entry) => entry.profile === profile.name)?.reason ?? null,
    })),
    levers: LEVERS.map((lever) => viewLever(lever, state)),
    fanCount: state.card?.limits.fanCount ?? null,
    quarantine: state.quarantine,
    drift: state.drift,
    confirm: state.trial === null ? null : { what: state.trial.what, untilMs: toWall(state.trial.untilMs) },
    isSweeping: state.sweep !== null,
    xidSource: state.card?.xidSource ?? null,
    ollamaReturn: state.ollama.finding,
  };
}

function viewLever(lever: Lever, state: TuningState): LeverView {
  const wish = wishFor(lever, state);
  const asked = state.asked[lever];
  return {
    lever,
    limits: state.card?.limits.levers[lever] ?? null,
    wanted: wish?.value ?? asked?.value ?? null,
    by: wish?.by ?? asked?.by ?? null,
    why: wish?.text ?? asked?.text ?? null,
    readBack: state.card?.values[lever] ?? null,
    report: state.reports[lever] ?? null,
  };
}

export function viewGovernor(state: TuningState, toWall: (ms: MonotonicMs) => WallMs): GovernorView {
  const { governor, policy } = state;
  return {
    enabled: governor.enabled,
    level: governor.level,
    isBlind: governor.isBlind,
    reason: governor.reason,
    hotC: governor.hotC,
    badInARow: governor.bad,
    goodInARow: governor.good,
    policy: policy.governor,
    history: governor.history.map((change) => ({ ...change, atMs: toWall(change.atMs) })).reverse(),
  };
}

/** Where things stand, in words. */
export function describeTuning(state: TuningState): string {
  const { governor } = state;
  const profile = activeProfile(state)?.profile.name ?? "none";
  const heat = governor.isBlind ? "blind" : governor.enabled ? `level ${governor.level}` : "disabled";
  return `profile ${profile}, governor ${heat}`;
}
