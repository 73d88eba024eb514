/** What each lever of a card allows, and where it stands now. Synchronous and blocking. */
import type { DeviceHandle } from "../../ffi/nvml.ts";
import { type Lever, type LeverLimits, type LeverValue } from "../model/card.ts";
import { messageOf } from "../model/failure.ts";
import type { GpuReading } from "../model/sample.ts";
import { type CardLibrary, type LeverDrive, leverDrives } from "./card_levers.ts";
import { isLock } from "./card_order.ts";
import { type LockWatch, watchLock } from "./card_trust.ts";
import { isNvmlFailure, type Judgement } from "./lever_verdict.ts";

/** Codes after which the card is gone and must be opened anew: the caller's business, not a lever's verdict. */
const CARD_GONE: ReadonlySet<number> = new Set([1, 15, 16, 28]);

export class LeverStand {
  readonly #drives: Readonly<Record<Lever, LeverDrive>>;
  readonly #limits = new Map<Lever, LeverLimits>();
  /** Locks as we set them; `stock` once we took one off. Absent: nobody knows. */
  readonly #locks = new Map<Lever, LockWatch | "stock">();

  constructor(nvml: CardLibrary, device: DeviceHandle) {
    this.#drives = leverDrives(nvml, device);
  }

  limits(lever: Lever): LeverLimits {
    const known = this.#limits.get(lever);
    if (known !== undefined) return known;
    try {
      const limits = this.#drives[lever].limits();
      this.#limits.set(lever, limits);
      return limits;
    } catch (error) {
      this.#throwIfGone(error);
      // Not kept: the driver may not be ready yet, and is asked again.
      return { adjustable: false, verdict: "not_supported", evidence: `not known yet: ${messageOf(error)}` };
    }
  }

  /** False: the driver hasn't said what the lever allows. */
  knowsLimits(lever: Lever): boolean {
    return this.#limits.has(lever);
  }

  /** A readable range doesn't mean a settable lever: laptops give the one and refuse the other. */
  rule(lever: Lever, limits: Extract<LeverLimits, { adjustable: false }>): void {
    this.#limits.set(lever, limits);
  }

  /** Why a lever that can't be adjusted wasn't; one whose limits the driver didn't give yet is tried again. */
  unable(lever: Lever, { verdict, evidence }: Extract<LeverLimits, { adjustable: false }>): Judgement {
    return { readBack: null, verdict: this.knowsLimits(lever) ? verdict : "failed", evidence, remedy: null };
  }

  /** What the card says; null: it can't be read back, or not now. */
  read(lever: Lever): LeverValue | null {
    try {
      return this.#drives[lever].read();
    } catch (error) {
      this.#throwIfGone(error);
      if (!isNvmlFailure(error)) throw error;
      return null;
    }
  }

  /** Where the lever stands; a lock stands where we put it, and elsewhere nobody knows. */
  value(lever: Lever): LeverValue | null {
    if (!isLock(lever)) return this.read(lever);
    const lock = this.#locks.get(lever) ?? null;
    return lock === null || lock === "stock" ? lock : lock.valueMhz;
  }

  /** Gives what the driver refused it with, null where it took it. Throws what means that the card is gone. */
  set(lever: Lever, value: LeverValue): unknown {
    try {
      this.#drives[lever].set(value);
    } catch (error) {
      this.#throwIfGone(error);
      return error;
    }
    if (isLock(lever)) {
      const clock = lever === "lock_core_mhz" ? "graphicsMhz" : "memoryMhz";
      this.#locks.set(lever, value === "stock" ? "stock" : watchLock(clock, value));
    }
    return null;
  }

  /** What a reading says of the locks that were set: they have no getter, clocks under load show them. */
  seeLocks(reading: GpuReading): readonly { readonly lever: Lever; readonly seen: ReturnType<LockWatch["see"]> }[] {
    return [...this.#locks].flatMap(([lever, lock]) => lock === "stock" ? [] : [{ lever, seen: lock.see(reading) }]);
  }

  #throwIfGone(error: unknown): void {
    if (isNvmlFailure(error) && CARD_GONE.has(error.code)) throw error;
  }
}
