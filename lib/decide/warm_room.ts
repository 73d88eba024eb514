/** Whether memory has room for a warm, and when a warm under way must stop for want of it. Pure. */
import { type Bytes, GIB, MIB, round, toGib } from "../model/units.ts";

/** What stands against a warm, as a sentence and in figures. */
export interface NoRoom {
  readonly reason: string;
  readonly hint: string;
  readonly neededBytes: Bytes;
  readonly roomBytes: Bytes;
}

export interface Room {
  readonly availableBytes: Bytes;
  readonly cgroup: { readonly limitBytes: Bytes; readonly usedBytes: Bytes; readonly cacheBytes: Bytes } | null;
}

export interface Need {
  /** Not yet resident. */
  readonly neededBytes: Bytes;
  readonly reserveBytes: Bytes;
}

/**
 * Judges before anything is read. Afterwards MemAvailable can't tell: clean page cache counts as available, and 4 GiB of
 * warming left it where it was.
 */
export function objectionToWarm(room: Room, { neededBytes, reserveBytes }: Need): NoRoom | null {
  const machineBytes = Math.max(0, room.availableBytes - reserveBytes);
  if (neededBytes > machineBytes) {
    return {
      reason: `it needs ${sized(neededBytes)} and ${sized(room.availableBytes)} are available, of which ` +
        `${sized(reserveBytes)} stay free`,
      hint: "Free memory, name a smaller file, or lower warm.reserve_gb",
      neededBytes,
      roomBytes: machineBytes,
    };
  }
  if (room.cgroup === null) return null;
  const { limitBytes, usedBytes, cacheBytes } = room.cgroup;
  const cgroupBytes = Math.max(0, limitBytes - usedBytes + cacheBytes);
  if (neededBytes <= cgroupBytes) return null;
  return {
    reason: `it needs ${sized(neededBytes)} and the service's cgroup has room for ${sized(cgroupBytes)} of its ` +
      `${sized(limitBytes)}`,
    hint: "Raise MemoryMax and MemoryHigh of the unit: page cache counts for whoever read it first",
    neededBytes,
    roomBytes: cgroupBytes,
  };
}

/** Of what was warmed, what may have been pushed out again before reading on is only turning memory over. */
const EVICTED_SHARE = 0.02;
/** Single pages come and go. */
const NEGLIGIBLE_EVICTED: Bytes = 8 * MIB;
/** The same by sampled pages: 3 of 64 absent happen once in 7 times at 2 %, at 10 % they are the rule. */
const ABSENT_SAMPLES = 4;
/** A cgroup this full is why. */
const FULL_SHARE = 0.97;

/** How a warm's own pages fare: counted, or looked at one by one where the kernel doesn't count for us. */
export type Fate =
  | { readonly kind: "counted"; readonly evictedBytes: Bytes }
  | { readonly kind: "sampled"; readonly absent: number };

export interface UnderWay {
  readonly doneBytes: Bytes;
  readonly fate: Fate;
  readonly room: Room;
  readonly reserveBytes: Bytes;
}

export interface Stop {
  readonly end: "evicting" | "cgroup_limit" | "memory_floor";
  readonly reason: string;
}

/** Why a warm under way must stop; null while it needn't. */
export function stopOfWarm({ doneBytes, fate, room, reserveBytes }: UnderWay): Stop | null {
  if (room.availableBytes < reserveBytes) {
    return {
      end: "memory_floor",
      reason: `Available memory fell to ${sized(room.availableBytes)}, below the ${sized(reserveBytes)} that stay free`,
    };
  }
  if (!isEvicted(fate, doneBytes)) return null;
  const lost = fate.kind === "counted"
    ? `${sized(fate.evictedBytes)} of the ${sized(doneBytes)} read were pushed out again`
    : `${fate.absent} of 64 pages read were pushed out again`;
  const { cgroup } = room;
  if (cgroup !== null && cgroup.usedBytes >= cgroup.limitBytes * FULL_SHARE) {
    return { end: "cgroup_limit", reason: `The service's cgroup is full at ${sized(cgroup.limitBytes)}: ${lost}` };
  }
  return { end: "evicting", reason: `Memory is full: ${lost}` };
}

function isEvicted(fate: Fate, doneBytes: Bytes): boolean {
  if (fate.kind === "sampled") return fate.absent >= ABSENT_SAMPLES;
  return fate.evictedBytes > Math.max(NEGLIGIBLE_EVICTED, doneBytes * EVICTED_SHARE);
}

function sized(bytes: Bytes): string {
  return bytes > 0 && bytes < GIB ? `${round(bytes / MIB, 0)} MiB` : `${round(toGib(bytes), 1)} GiB`;
}
