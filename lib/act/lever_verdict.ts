/** What a lever's setter and read-back mean. Pure. */
import type { NvmlFailure } from "../../ffi/nvml_errors.ts";
import type { Lever, LeverLimits, LeverReport, LeverValue, LeverVerdict } from "../model/card.ts";
import { messageOf } from "../model/failure.ts";

export const LEVER_NAMES = {
  power_limit_w: "power limit",
  lock_core_mhz: "graphics clock lock",
  lock_mem_mhz: "memory clock lock",
  core_offset_mhz: "graphics clock offset",
  mem_offset_mhz: "memory clock offset",
  fan: "fans",
} as const satisfies Record<Lever, string>;

const UNITS = {
  power_limit_w: "W",
  lock_core_mhz: "MHz",
  lock_mem_mhz: "MHz",
  core_offset_mhz: "MHz",
  mem_offset_mhz: "MHz",
  fan: "%",
} as const satisfies Record<Lever, string>;

/** How far a read-back may lie from what was asked for. Offsets come back 1–2 MHz off on some drivers. */
export const TOLERANCE = {
  power_limit_w: 1,
  lock_core_mhz: 15,
  lock_mem_mhz: 15,
  core_offset_mhz: 2,
  mem_offset_mhz: 2,
  fan: 1,
} as const satisfies Record<Lever, number>;

/** What a judgement leaves out: which lever, what was wanted, when. */
export type Judgement = Pick<LeverReport, "readBack" | "verdict" | "evidence" | "remedy">;

/** A value with its unit, or what stock means for that lever. */
export function describeValue(lever: Lever, value: LeverValue | null): string {
  if (value === null) return "an unreadable value";
  if (value !== "stock") return `${value} ${UNITS[lever]}`;
  return lever === "fan" ? "automatic" : lever.startsWith("lock") ? "unlocked" : "stock";
}

/** The number behind a value; null for an unlocked clock and for automatic fans. */
export function numberOf(value: LeverValue, limits: LeverLimits): number | null {
  if (value !== "stock") return value;
  return limits.adjustable ? limits.stock : null;
}

/** Whether a card that shows `readBack` is where it should be. */
export function isSame(lever: Lever, pair: { wanted: LeverValue; readBack: LeverValue }, limits: LeverLimits): boolean {
  const wanted = numberOf(pair.wanted, limits);
  const readBack = numberOf(pair.readBack, limits);
  if (wanted === null || readBack === null) return wanted === readBack;
  return Math.abs(wanted - readBack) <= TOLERANCE[lever];
}

/** Whether nothing is left to set: exactly there. Near enough is how a read-back is judged, not where a card is left. */
export function isExactly(pair: { wanted: LeverValue; readBack: LeverValue }, limits: LeverLimits): boolean {
  return numberOf(pair.wanted, limits) === numberOf(pair.readBack, limits);
}

/** What to set for a wish: inside the limits, on the card's own steps, and `stock` where that is what it comes to. */
export function fitToCard(value: LeverValue, limits: LeverLimits): LeverValue {
  if (value === "stock" || !limits.adjustable) return value;
  const inside = Math.min(limits.max, Math.max(limits.min, Math.round(value)));
  if (inside === limits.stock) return "stock";
  return limits.steps?.findLast((step) => step <= inside) ?? inside;
}

export interface Seen {
  readonly wanted: LeverValue;
  readonly before: LeverValue | null;
  readonly readBack: LeverValue | null;
  readonly limits: LeverLimits;
}

/** The verdict after a setter that was accepted. */
export function judge(lever: Lever, { wanted, before, readBack, limits }: Seen): Judgement {
  const asked = describeValue(lever, wanted);
  if (lever === "lock_core_mhz" || lever === "lock_mem_mhz") {
    return wanted === "stock"
      ? {
        readBack: null,
        verdict: "honoured",
        remedy: null,
        evidence: "The driver took the lock off; nothing reads it back",
      }
      : {
        readBack: null,
        verdict: "unverified",
        remedy: "Put the card under load: its clock then shows whether the lock holds",
        evidence: `The driver accepted ${asked}; nothing reads it back`,
      };
  }
  if (readBack === null) {
    return {
      readBack,
      verdict: "unverified",
      remedy: null,
      evidence: `The driver accepted ${asked}; reading it back failed`,
    };
  }
  const seen = describeValue(lever, readBack);
  if (isSame(lever, { wanted, readBack }, limits)) {
    return { readBack, verdict: "honoured", remedy: null, evidence: `Set ${asked}, read back ${seen}` };
  }
  if (hasMoved({ wanted, before, readBack, limits })) {
    const evidence = `Asked for ${asked}, the card took ${seen}: its own step or minimum`;
    return { readBack, verdict: "honoured", remedy: null, evidence };
  }
  const evidence = `The driver accepted ${asked} and the card still reads ${seen}`;
  return { readBack, verdict: "ignored", remedy: "Leave this lever alone on this card and driver", evidence };
}

/** Part of the way counts as taken; standing still or going the wrong way doesn't. */
function hasMoved({ wanted, before, readBack, limits }: Seen): boolean {
  if (before === null || readBack === null) return false;
  const [to, from, at] = [wanted, before, readBack].map((value) => numberOf(value, limits));
  if (to == null || at == null) return false;
  // Fans that were automatic have no number to come from: a percentage at all is a move.
  if (from == null) return at > to;
  return Math.abs(at - to) < Math.abs(from - to);
}

/** Codes by which a driver says: never for this card or this driver. 2 comes from fan calls on cards without fans. */
const NOT_SUPPORTED: ReadonlySet<number> = new Set([3, 13, 25, 26]);
const NO_PERMISSION = 4;
const INVALID_ARGUMENT = 2;

/** Told by its name: only types may come from ffi, and the lab's card throws its own. */
export function isNvmlFailure(error: unknown): error is NvmlFailure {
  return error instanceof Error && error.name === "NvmlError" && "code" in error;
}

/** The verdict after a setter that was refused. */
export function judgeRefusal(lever: Lever, wanted: LeverValue, error: unknown): Judgement {
  const action = `Cannot set ${LEVER_NAMES[lever]} to ${describeValue(lever, wanted)}`;
  if (!isNvmlFailure(error)) {
    return { readBack: null, verdict: "failed", evidence: `${action}: ${messageOf(error)}`, remedy: null };
  }
  const evidence = `${action}: ${error.symbol} returned ${error.codeName}`;
  const verdict = verdictOf(error.code);
  return { readBack: null, verdict, evidence, remedy: REMEDIES[verdict] };
}

function verdictOf(code: number): "not_supported" | "not_permitted" | "ignored" | "failed" {
  if (NOT_SUPPORTED.has(code)) return "not_supported";
  if (code === NO_PERMISSION) return "not_permitted";
  return code === INVALID_ARGUMENT ? "ignored" : "failed";
}

const REMEDIES = {
  not_supported: "This card or driver has no such lever; a newer driver may",
  not_permitted: "Run the service as root with CAP_SYS_ADMIN: the driver lets nobody else set it",
  ignored: "The value is outside what the card takes; see its limits",
  failed: "It is tried again when the driver is ready",
} as const satisfies Partial<Record<LeverVerdict, string>>;
