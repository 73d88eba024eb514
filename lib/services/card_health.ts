/** Whether the card stands as it was set, for health. */
import type { HealthCheck } from "../model/services.ts";
import type { GovernorView, LeverView, TuningView } from "../model/tuning_view.ts";

type Trouble = Omit<HealthCheck, "name" | "state">;

/** The first trouble counts: the others come into sight once it is gone. */
export function checkTuning(tuning: TuningView, governor: GovernorView): HealthCheck {
  if (!tuning.isReady) {
    const finding = tuning.reason ?? "The card has not been opened yet";
    return { name: "tuning", state: "not_applicable", finding, breaks: null, remedy: null };
  }
  const trouble = blind(governor) ?? stayedAway(tuning) ?? drifted(tuning) ?? unmet(tuning) ?? quarantined(tuning);
  if (trouble !== null) return { name: "tuning", state: "degraded", ...trouble };
  const profile = tuning.active === null ? "No profile is in force" : `Profile ${tuning.active} is in force`;
  return { name: "tuning", state: "ok", finding: `${profile}: ${tuning.why}`, breaks: null, remedy: null };
}

function blind({ isBlind, reason }: GovernorView): Trouble | null {
  if (!isBlind) return null;
  return {
    finding: reason,
    breaks: "The card stays at stock: no profile, no offset, no manual fan",
    remedy: "It ends by itself once the temperature can be read; else look for the driver's errors in the kernel's log",
  };
}

function stayedAway({ ollamaReturn }: TuningView): Trouble | null {
  if (ollamaReturn === null || ollamaReturn.isOnGpu) return null;
  return {
    finding: ollamaReturn.text,
    breaks: "Its models run on the CPU, ten times slower, and hand-offs have nothing to hand over",
    remedy:
      "systemctl restart ollama; if it still finds no GPU, reload nvidia_uvm (rmmod, then modprobe) and restart it",
  };
}

function drifted({ drift }: TuningView): Trouble | null {
  const [first] = drift;
  if (first === undefined) return null;
  const { lever, wanted, found, isConflict, suspects } = first;
  const who = suspects.length === 0 ? "another tool or the driver" : suspects.join(", ");
  return {
    finding: isConflict
      ? `${who} keeps changing ${lever}, so it isn't set again`
      : `${lever} was set to ${wanted} and now reads ${found}; it may be ${who}`,
    breaks: "The card doesn't run as its profile says",
    remedy: isConflict || suspects.length > 0
      ? "Leave the card to one tool: stop the other, then apply the profile again"
      : "Apply the profile again, or set profiles.reapply = true",
  };
}

function unmet({ levers }: TuningView): Trouble | null {
  const isUnmet = ({ wanted, report }: LeverView) =>
    wanted !== null && report !== null && ["ignored", "not_permitted", "failed"].includes(report.verdict);
  const refused = levers.find(isUnmet)?.report;
  if (refused === undefined || refused === null) return null;
  return {
    finding: `${refused.lever} is ${refused.verdict.replace("_", " ")}: ${refused.evidence}`,
    breaks: "What the profile wants of it has no effect",
    remedy: refused.remedy ?? "Leave this lever out of the profile",
  };
}

function quarantined({ quarantine }: TuningView): Trouble | null {
  const [first] = quarantine;
  if (first === undefined) return null;
  return {
    finding: `Profile ${first.profile} is quarantined: ${first.reason}`,
    breaks: "It isn't chosen by itself any more",
    remedy: `Apply it by hand to trust it again: hyperswap overclock apply ${first.profile}`,
  };
}
