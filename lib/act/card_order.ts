/** In which order levers are set. Pure. */
import type { Lever, LeverLimits, LeverValue } from "../model/card.ts";

/** One lever to set. */
export interface Step {
  readonly lever: Lever;
  readonly value: LeverValue;
  readonly before: LeverValue | null;
  readonly limits: LeverLimits;
}

/** Down before up: what only calms the card goes first, what strains it most comes last. */
export const ORDER_AWAY: readonly Lever[] = [
  "fan",
  "power_limit_w",
  "lock_core_mhz",
  "lock_mem_mhz",
  "core_offset_mhz",
  "mem_offset_mhz",
];
/** Pinned fans are what can harm a card that nobody watches; then what makes it unstable. */
export const ORDER_TO_STOCK: readonly Lever[] = [
  "fan",
  "mem_offset_mhz",
  "core_offset_mhz",
  "lock_mem_mhz",
  "lock_core_mhz",
  "power_limit_w",
];

/** Locks have no getter. */
export function isLock(lever: Lever): boolean {
  return lever === "lock_core_mhz" || lever === "lock_mem_mhz";
}

export function inOrder(steps: readonly Step[], order: readonly Lever[]): readonly Step[] {
  return [...steps].sort((a, b) => order.indexOf(a.lever) - order.indexOf(b.lever));
}
