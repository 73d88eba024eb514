/**
 * Which of two ways of reading is the quicker on a disk, found out by reading with both in turn. Pure.
 *
 * Nothing that can be looked up tells. Faults in huge pages took half the CPU of a pipe of 1 MiB, and on a machine of 16
 * cores were 1.1 to 1.2 times as fast; on a virtual machine that must fetch memory back from its host they were from two
 * thirds to twice as fast.
 */
import type { WarmMethod } from "../model/page_cache.ts";
import { type Bytes, MIB } from "../model/units.ts";

export type FastMethod = Exclude<WarmMethod, "read">;

/** Not timed after a change: what the other has read ahead, twice 8 MiB at a large read-ahead, is no merit of this one. */
const LEAD_IN: Bytes = 32 * MIB;
/** What is timed at a stretch. */
const STRETCH: Bytes = 64 * MIB;
/** Stretches of each before it is judged, and those that are remembered: others may slow one down, nobody speeds it up. */
const TRIED = 2;
const REMEMBERED = 3;
/** Stretches of the better one until the other is tried again: 4 GiB. */
const STRETCHES_BETWEEN = 64;
/** So much faster the pipe must be to be worth its CPU: less is what two stretches of one method may differ by. */
const WORTH = 1.15;

export interface MethodState {
  /** To read with next. */
  readonly method: FastMethod;
  readonly leadInBytes: Bytes;
  readonly stretch: { readonly bytes: Bytes; readonly diskBytes: Bytes; readonly ms: number };
  /** Bytes in a millisecond, newest last. */
  readonly speeds: Readonly<Record<FastMethod, readonly number[]>>;
  /** Stretches of this method in a row. */
  readonly stretches: number;
}

const NO_STRETCH = { bytes: 0, diskBytes: 0, ms: 0 };

export const FIRST_METHOD: MethodState = takenUp("fault", { splice: [], fault: [] });

/** One chunk that was read at full speed. */
export interface ChunkRead {
  readonly method: WarmMethod;
  readonly bytes: Bytes;
  readonly diskBytes: Bytes;
  readonly ms: number;
}

export function reduceMethod(state: MethodState, { method, bytes, diskBytes, ms }: ChunkRead): MethodState {
  // Somebody else's chunk, where the file refuses the method.
  if (method !== state.method) return state;
  if (state.leadInBytes > 0) return { ...state, leadInBytes: state.leadInBytes - bytes };
  const stretch = {
    bytes: state.stretch.bytes + bytes,
    diskBytes: state.stretch.diskBytes + diskBytes,
    ms: state.stretch.ms + ms,
  };
  if (stretch.bytes < STRETCH) return { ...state, stretch };
  // Resident pages say nothing of a method.
  if (stretch.diskBytes < stretch.bytes / 2) return { ...state, stretch: NO_STRETCH };
  const remembered = [...state.speeds[method], stretch.bytes / Math.max(1, stretch.ms)].slice(-REMEMBERED);
  const speeds = { ...state.speeds, [method]: remembered };
  const next = nextMethod(method, speeds, state.stretches + 1);
  if (next !== method) return takenUp(next, speeds);
  return { ...state, speeds, stretch: NO_STRETCH, stretches: state.stretches + 1 };
}

function takenUp(method: FastMethod, speeds: MethodState["speeds"]): MethodState {
  return { method, leadInBytes: LEAD_IN, stretch: NO_STRETCH, speeds, stretches: 0 };
}

function nextMethod(method: FastMethod, speeds: MethodState["speeds"], stretches: number): FastMethod {
  const other = method === "splice" ? "fault" : "splice";
  const [own, its] = [speeds[method].length, speeds[other].length];
  if (own < TRIED || its < TRIED) return its < own ? other : method;
  const isSpliceBetter = Math.max(...speeds.splice) > WORTH * Math.max(...speeds.fault);
  const better = isSpliceBetter ? "splice" : "fault";
  return better === method && stretches >= STRETCHES_BETWEEN ? other : better;
}
