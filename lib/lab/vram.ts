import type { Clock } from "../model/ports.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import type { TableProcess } from "./gpu_layout.ts";
import type { GpuTable } from "./gpu_table.ts";

/** One thing the driver really did, at the moment it did it: what tests and the bench measure confirmations against. */
export interface Truth {
  readonly atMs: MonotonicMs;
  readonly pid: number;
  readonly kind: "allocated" | "freed" | "exited";
  readonly bytes: Bytes;
  /** What the process holds afterwards. */
  readonly heldBytes: Bytes;
}

interface Holder {
  bytes: Bytes;
  smPct: number;
  readonly isCompute: boolean;
  readonly isGraphics: boolean;
}

/** How many truths are kept: some hours of the demo. */
const TRUTHS = 20_000;

/**
 * Who holds how much of the simulated card, kept equal to what the table shows: used = Σ(processes) + the unaccounted
 * share. The only place that changes memory, so its log is the truth.
 */
export class Vram {
  /**
   * Milliseconds by which the device's figure comes after the process list's (and the other way round when memory is
   * freed): two calls are never one snapshot.
   */
  skewMs = 0;
  readonly #table: GpuTable;
  readonly #clock: Clock;
  readonly #holders = new Map<number, Holder>();
  readonly #log: Truth[] = [];

  constructor({ table, clock }: { readonly table: GpuTable; readonly clock: Clock }) {
    this.#table = table;
    this.#clock = clock;
  }

  get log(): readonly Truth[] {
    return this.#log;
  }

  get usedBytes(): Bytes {
    let sum = this.#table.card.unaccountedBytes;
    for (const holder of this.#holders.values()) sum += holder.bytes;
    return sum;
  }

  get freeBytes(): Bytes {
    return this.#table.card.totalBytes - this.#table.card.reservedBytes - this.usedBytes;
  }

  heldBytes(pid: number): Bytes {
    return this.#holders.get(pid)?.bytes ?? 0;
  }

  /** When that process last came to hold nothing; null while it holds something or was never there. */
  releasedAtMs(pid: number): MonotonicMs | null {
    if (this.heldBytes(pid) > 0) return null;
    return this.#log.findLast((truth) => truth.pid === pid && truth.heldBytes === 0)?.atMs ?? null;
  }

  /** When that process first grew after `sinceMs`; null when it didn't. */
  grewAtMs(pid: number, sinceMs: MonotonicMs): MonotonicMs | null {
    return this.#log.find((truth) => truth.pid === pid && truth.kind === "allocated" && truth.atMs >= sinceMs)?.atMs ??
      null;
  }

  /** Puts a process on the card's list, holding nothing yet. */
  enter(pid: number, kind: "compute" | "graphics" = "compute"): void {
    if (this.#holders.has(pid)) return;
    this.#holders.set(pid, { bytes: 0, smPct: 0, isCompute: kind === "compute", isGraphics: kind === "graphics" });
    this.#publish("grow");
  }

  /** False, and nothing happens, when there isn't that much room: the driver's out-of-memory. */
  allocate(pid: number, bytes: Bytes): boolean {
    const holder = this.#holders.get(pid);
    if (holder === undefined) throw new Error(`Cannot allocate for pid ${pid}: it is not on the card`);
    if (bytes > this.freeBytes) return false;
    if (bytes <= 0) return true;
    holder.bytes += bytes;
    this.#note({ pid, kind: "allocated", bytes, heldBytes: holder.bytes });
    this.#publish("grow");
    return true;
  }

  /** Gives back at most what is held. */
  free(pid: number, bytes: Bytes): void {
    const holder = this.#holders.get(pid);
    const freed = Math.min(bytes, holder?.bytes ?? 0);
    if (holder === undefined || freed <= 0) return;
    holder.bytes -= freed;
    this.#note({ pid, kind: "freed", bytes: freed, heldBytes: holder.bytes });
    this.#publish("shrink");
  }

  /** The process is gone and everything it held is back. */
  exit(pid: number): void {
    const holder = this.#holders.get(pid);
    if (holder === undefined) return;
    this.#holders.delete(pid);
    this.#note({ pid, kind: "exited", bytes: holder.bytes, heldBytes: 0 });
    this.#publish("shrink");
  }

  /** How busy that process keeps the card's multiprocessors. */
  work(pid: number, smPct: number): void {
    const holder = this.#holders.get(pid);
    if (holder === undefined || holder.smPct === smPct) return;
    holder.smPct = smPct;
    this.#publish("same");
  }

  /** The busiest process's share: what the card as a whole shows. */
  get smPct(): number {
    let most = 0;
    for (const holder of this.#holders.values()) most = Math.max(most, holder.smPct);
    return most;
  }

  smPctOf(pid: number): number {
    return this.#holders.get(pid)?.smPct ?? 0;
  }

  #note(truth: Omit<Truth, "atMs">): void {
    this.#log.push({ atMs: this.#clock.monotonicMs(), ...truth });
    if (this.#log.length > TRUTHS) this.#log.splice(0, TRUTHS / 10);
  }

  #publish(direction: "grow" | "shrink" | "same"): void {
    const processes: TableProcess[] = [...this.#holders].map(([pid, holder]) => ({ pid, ...holder }));
    if (this.skewMs <= 0 || direction === "same") {
      this.#table.setMemory({ usedBytes: this.usedBytes, processes });
      return;
    }
    // The list is ahead while memory grows, the device's figure while it shrinks; the other half follows.
    if (direction === "grow") this.#table.setMemory({ processes });
    else this.#table.setMemory({ usedBytes: this.usedBytes });
    this.#clock.after(this.skewMs, () => this.#publish("same"));
  }
}
