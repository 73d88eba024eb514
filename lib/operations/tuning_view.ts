/** The card's levers, profiles and governor under the names that doors show. */
import * as z from "zod";
import { LEVERS } from "../model/card.ts";
import type { Lever } from "../model/card.ts";
import { RUNGS } from "../model/tuning.ts";
import type { GovernorView, LeverView, ProfileView, TuningView } from "../model/tuning_view.ts";
import type { FanReading, GpuState } from "../model/sample.ts";
import { toIso } from "../model/units.ts";
import { isoOrNull, time } from "./quantities.ts";

/** Shown for a profile's value without evidence. */
const NOT_MEASURED = "not measured on this card";

const UNITS: Readonly<Record<Lever, string>> = {
  power_limit_w: "W",
  lock_core_mhz: "MHz",
  lock_mem_mhz: "MHz",
  core_offset_mhz: "MHz",
  mem_offset_mhz: "MHz",
  fan: "%",
};

/** A lever's value on the wire: a number in its unit, or stock. */
export const leverValue = (what: string) => z.union([z.number(), z.literal("stock")]).nullable().describe(what);

export const LeverWire = z.object({
  lever: z.enum(LEVERS),
  unit: z.string(),
  adjustable: z.boolean().nullable().describe("null before the card was asked"),
  min: z.number().nullable(),
  max: z.number().nullable(),
  stock: z.number().nullable().describe("the number that stock stands for; null for locks and fans"),
  wanted: leverValue("what it was set to; null: nobody has set it"),
  wanted_by: z.string().nullable().describe("governor, confirm_revert, sweep, operator, profile or restore"),
  why: z.string().nullable(),
  read_back: leverValue("what the card says; null where it doesn't"),
  verdict: z.enum(["honoured", "ignored", "not_supported", "not_permitted", "unverified", "failed"]).nullable()
    .describe("what the card made of it; null before it was ever set"),
  evidence: z.string().nullable(),
  remedy: z.string().nullable(),
  at: time("when it was set last", null),
});

export function viewLever(view: LeverView): z.output<typeof LeverWire> {
  const { lever, limits, report } = view;
  const range = limits?.adjustable === true ? limits : null;
  const refusal = limits?.adjustable === false ? limits : null;
  return {
    lever,
    unit: UNITS[lever],
    adjustable: limits?.adjustable ?? null,
    min: range?.min ?? null,
    max: range?.max ?? null,
    stock: range?.stock ?? null,
    wanted: view.wanted,
    wanted_by: view.by,
    why: view.why,
    read_back: view.readBack,
    verdict: report?.verdict ?? refusal?.verdict ?? null,
    evidence: report?.evidence ?? refusal?.evidence ?? null,
    remedy: report?.remedy ?? null,
    at: isoOrNull(report?.atMs ?? null),
  };
}

export const ChangeWire = z.object({
  message: z.string(),
  levers: z.array(LeverWire).describe("what became of each lever that was asked about"),
});

const ProfileWire = z.object({
  name: z.string(),
  built_in: z.boolean(),
  active: z.boolean(),
  settings: z.array(z.object({
    lever: z.enum(LEVERS),
    value: z.union([z.number(), z.enum(["default", "max"])]),
    measured: z.string().describe("the evidence behind it"),
  })),
  quarantined_for: z.string().nullable().describe("why it isn't chosen until it is applied by hand"),
});

function viewProfile(profile: ProfileView, active: string | null): z.output<typeof ProfileWire> {
  return {
    name: profile.name,
    built_in: profile.isBuiltIn,
    active: profile.name === active,
    settings: LEVERS.flatMap((lever) => {
      const wanted = profile.values[lever];
      return wanted === undefined ? [] : [{ lever, value: wanted, measured: profile.measured[lever] ?? NOT_MEASURED }];
    }),
    quarantined_for: profile.quarantinedFor,
  };
}

export const DriftWire = z.object({
  lever: z.enum(LEVERS),
  wanted: leverValue("what it was set to"),
  found: leverValue("what the card says now"),
  conflict: z.boolean().describe("another tool keeps writing, so nothing is set again"),
  suspects: z.array(z.string()).describe("running programs that set cards"),
});

export const ConfirmWire = z.object({ what: z.string(), until: time("when it is taken back unless confirmed") })
  .nullable();

export const FanStatusWire = z.object({
  adjustable: z.boolean().nullable(),
  reason: z.string().nullable().describe("why they can't be set"),
  mode: z.enum(["auto", "manual"]).nullable(),
  target_pct: z.number().nullable().describe("what was set, %; null when automatic"),
  pct: z.number().nullable().describe("the fastest fan's live speed, %"),
  rpm: z.number().nullable().describe("the fastest fan's; null where the card has none"),
  min_pct: z.number().nullable(),
  max_pct: z.number().nullable(),
  fans: z.array(z.object({
    pct: z.number().nullable(),
    target_pct: z.number().nullable(),
    rpm: z.number().nullable(),
    mode: z.enum(["auto", "manual"]).nullable(),
  })),
});

/** Fans as they are (sample) and as they were set (lever). */
export function viewFans(gpu: GpuState, tuning: TuningView): z.output<typeof FanStatusWire> {
  const fans = gpu.available ? gpu.reading.fans : [];
  const lever = tuning.levers.find((candidate) => candidate.lever === "fan");
  const limits = lever?.limits ?? null;
  const set = lever?.readBack ?? null;
  const mode = set === null ? fans[0]?.policy ?? null : set === "stock" ? "auto" : "manual";
  return {
    adjustable: limits?.adjustable ?? null,
    reason: limits?.adjustable === false ? limits.evidence : tuning.reason,
    mode,
    target_pct: typeof set === "number" ? set : null,
    pct: fastest(fans, "pct"),
    rpm: fastest(fans, "rpm"),
    min_pct: limits?.adjustable === true ? limits.min : gpu.facts?.fanMinPct ?? null,
    max_pct: limits?.adjustable === true ? limits.max : gpu.facts?.fanMaxPct ?? null,
    fans: fans.map((fan) => ({ pct: fan.pct, target_pct: fan.targetPct, rpm: fan.rpm, mode: fan.policy })),
  };
}

function fastest(fans: readonly FanReading[], what: "pct" | "rpm"): number | null {
  const known = fans.flatMap((fan) => fan[what] ?? []);
  return known.length === 0 ? null : Math.max(...known);
}

export const OverclockWire = z.object({
  available: z.boolean().describe("whether anything can be set now"),
  reason: z.string().nullable().describe("why nothing can be set"),
  active_profile: z.string().nullable(),
  active_by: z.enum(["auto", "operator"]).nullable(),
  why: z.string(),
  automatic: z.boolean().describe("whether the profile follows the workload"),
  profiles: z.array(ProfileWire),
  levers: z.array(LeverWire),
  fans: FanStatusWire,
  quarantine: z.array(z.object({ profile: z.string(), reason: z.string() })),
  drift: z.array(DriftWire),
  confirm: ConfirmWire.describe("a change that waits for its confirmation"),
  sweeping: z.boolean(),
  xid_source: z.enum(["nvml", "kmsg"]).nullable().describe("where the driver's faults are heard; null: not measurable"),
  ollama_back: z.boolean().nullable().describe(
    "whether Ollama came back on the card after a suspend or a driver reload; null: there was none, or nothing loaded since",
  ),
});

export function viewOverclock(tuning: TuningView, gpu: GpuState): z.output<typeof OverclockWire> {
  return {
    available: tuning.isReady,
    reason: tuning.reason,
    active_profile: tuning.active,
    active_by: tuning.activeBy,
    why: tuning.why,
    automatic: tuning.isAutomatic,
    profiles: tuning.profiles.map((profile) => viewProfile(profile, tuning.active)),
    levers: tuning.levers.map(viewLever),
    fans: viewFans(gpu, tuning),
    quarantine: tuning.quarantine.map(({ profile, reason }) => ({ profile, reason })),
    drift: viewDrift(tuning),
    confirm: viewConfirm(tuning),
    sweeping: tuning.isSweeping,
    xid_source: tuning.xidSource,
    ollama_back: tuning.ollamaReturn?.isOnGpu ?? null,
  };
}

export function viewDrift({ drift }: TuningView): z.output<typeof DriftWire>[] {
  return drift.map(({ lever, wanted, found, isConflict, suspects }) => ({
    lever,
    wanted,
    found,
    conflict: isConflict,
    suspects: [...suspects],
  }));
}

export function viewConfirm({ confirm }: TuningView): z.output<typeof ConfirmWire> {
  return confirm === null ? null : { what: confirm.what, until: toIso(confirm.untilMs) };
}

export const GovernorWire = z.object({
  enabled: z.boolean(),
  level: z.int().describe("0 (nothing) to 4"),
  rung: z.enum(RUNGS),
  rungs: z.array(z.string()).describe("what each level does"),
  blind: z.boolean().describe("the temperature can't be read, so the card is at stock"),
  reason: z.string(),
  hot_c: z.number().nullable().describe("°C from which a sample is bad on this card"),
  bad_in_a_row: z.int(),
  good_in_a_row: z.int(),
  settings: z.object({
    bad_samples: z.int(),
    good_samples: z.int(),
    cooldown_s: z.number(),
    recover_margin_c: z.number(),
    memory_hot_c: z.number(),
    fan_pct: z.number(),
    power_pct: z.number(),
  }),
  history: z.array(z.object({ at: time("when"), from: z.int(), level: z.int(), reason: z.string() }))
    .describe("newest first"),
});

export function viewGovernor(view: GovernorView): z.output<typeof GovernorWire> {
  const { policy } = view;
  return {
    enabled: view.enabled,
    level: view.level,
    rung: RUNGS[view.level] ?? "stock",
    rungs: [
      "nothing",
      `fans to at least ${policy.fanPct} %`,
      "offsets and locks off",
      "power to default",
      `power to ${policy.powerPct} % of default, not below the card's minimum`,
    ],
    blind: view.isBlind,
    reason: view.reason,
    hot_c: view.hotC,
    bad_in_a_row: view.badInARow,
    good_in_a_row: view.goodInARow,
    settings: {
      bad_samples: policy.badSamples,
      good_samples: policy.goodSamples,
      cooldown_s: policy.cooldownMs / 1000,
      recover_margin_c: policy.recoverMarginC,
      memory_hot_c: policy.memoryHotC,
      fan_pct: policy.fanPct,
      power_pct: policy.powerPct,
    },
    history: view.history.map(({ atMs, from, to, reason }) => ({ at: toIso(atMs), from, level: to, reason })),
  };
}
