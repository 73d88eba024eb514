/** The card of the random histories: who holds what, by its own book and as the driver shows it. */
import type { Random } from "../../lib/lab/random.ts";
import type { BarrierReading } from "../../lib/model/sample.ts";
import type { Bucket } from "../../lib/model/tenants.ts";
import { CARD_BYTES, COMFY_SERVER, gib, type Held, reading, RESIDUAL_BYTES } from "./stories.ts";

export interface Process {
  readonly bucket: Bucket;
  bytes: number;
  /** The driver doesn't give its bytes. */
  readonly isBlind: boolean;
  readonly sinceMs: number;
}

export class WorldCard {
  readonly processes = new Map<number, Process>();
  /** Memory still used although its process has left the list. */
  leaving: readonly { readonly pid: number; readonly bytes: number }[] = [];
  #nextPid = 1_000;
  /** The last true look: a reading may mix it with the present. */
  #lastHeld: readonly Held[] = [];
  #lastUsedBytes = 0;
  #wasMixed = false;

  constructor(nowMs: number) {
    this.processes.set(COMFY_SERVER.pid, { bucket: "comfy", bytes: gib(0.8), isBlind: false, sinceMs: nowMs });
  }

  get usedBytes(): number {
    let sum = RESIDUAL_BYTES;
    for (const process of this.processes.values()) sum += process.bytes;
    return this.leaving.reduce((total, entry) => total + entry.bytes, sum);
  }

  get comfyBytes(): number {
    return this.processes.get(COMFY_SERVER.pid)?.bytes ?? 0;
  }

  /** What that process has not given back yet. */
  unfreedBytes(pid: number): number {
    const later = this.leaving.filter((entry) => entry.pid === pid).reduce((sum, entry) => sum + entry.bytes, 0);
    return (this.processes.get(pid)?.bytes ?? 0) + later;
  }

  held(): readonly Held[] {
    return [...this.processes].map(([pid, { bucket, bytes, isBlind }]) => ({
      pid,
      bucket,
      bytes: isBlind ? null : bytes,
    }));
  }

  /** What no listed figure accounts for, beside the residual. */
  hiddenBytes(): number {
    let sum = 0;
    for (const process of this.processes.values()) sum += process.isBlind ? process.bytes : 0;
    return this.leaving.reduce((total, entry) => total + entry.bytes, sum);
  }

  spawn(bucket: Bucket, { isBlind = false, nowMs }: { readonly isBlind?: boolean; readonly nowMs: number }): number {
    const pid = this.#nextPid++;
    this.processes.set(pid, { bucket, bytes: 0, isBlind, sinceMs: nowMs });
    return pid;
  }

  /** False, and nothing happens, when there isn't so much. */
  allocate(pid: number, bytes: number): boolean {
    const process = this.processes.get(pid);
    if (process === undefined || bytes > CARD_BYTES - this.usedBytes) return false;
    process.bytes += bytes;
    return true;
  }

  /** A process leaves the list; with `isLingering` its memory is still used until `settle`. */
  remove(pid: number, isLingering: boolean): void {
    const process = this.processes.get(pid);
    this.processes.delete(pid);
    if (isLingering && process !== undefined) this.leaving = [...this.leaving, { pid, bytes: process.bytes }];
  }

  settle(pid: number): void {
    this.leaving = this.leaving.filter((entry) => entry.pid !== pid);
  }

  remember(): void {
    [this.#lastHeld, this.#lastUsedBytes] = [this.held(), this.usedBytes];
  }

  /** Two calls, not one snapshot: one reading may mix what was and what is, two in a row don't. */
  read(nowMs: number, random: Random, smPctByPid: Record<number, number> | null): BarrierReading {
    const isMixed = !this.#wasMixed && random.next() < 0.1;
    const isListOld = random.next() < 0.5;
    const shown = reading(nowMs, isMixed && isListOld ? this.#lastHeld : this.held(), { smPctByPid });
    const usedBytes = isMixed && !isListOld ? this.#lastUsedBytes : this.usedBytes;
    this.#wasMixed = isMixed;
    this.remember();
    return { ...shown, usedBytes, freeBytes: CARD_BYTES - usedBytes };
  }
}
