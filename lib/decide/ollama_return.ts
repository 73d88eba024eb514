/**
 * Whether Ollama came back on the GPU after the card was opened anew (SPEC 4.7). After a suspend or a driver reload its
 * server may find no card any more and run everything on the CPU, ten times slower and without a word. Pure.
 */
import type { Sample } from "../model/sample.ts";
import { type Bytes, MIB, type MonotonicMs } from "../model/units.ts";

/** A runner's context alone takes more; what a monitor holds is less. */
const HELD: Bytes = 64 * MIB;
/** The list of models and the driver's list of processes are read at different moments, and a load takes its time. */
const SETTLED_MS = 10_000;

export interface OllamaReturn {
  /** It has been seen on this card: only then can it be missed. */
  readonly wasOnGpu: boolean;
  /** The card was opened anew, and no model has been seen since. */
  readonly isAwaited: boolean;
  /** Since when models are resident without any of them on the card; null: not so now. */
  readonly missingSinceMs: MonotonicMs | null;
  /** What was found after the last time the card was opened anew; null: nothing yet, or it never was. */
  readonly finding: { readonly isOnGpu: boolean; readonly text: string } | null;
}

export const NOT_AWAITED: OllamaReturn = { wasOnGpu: false, isAwaited: false, missingSinceMs: null, finding: null };

/** The card was opened anew: what Ollama does with its next model is looked at. */
export function awaitReturn(state: OllamaReturn): OllamaReturn {
  return { ...state, isAwaited: state.wasOnGpu, missingSinceMs: null, finding: null };
}

export function watchReturn(
  state: OllamaReturn,
  { sample: { gpu, ollama }, atMs }: { readonly sample: Sample; readonly atMs: MonotonicMs },
): OllamaReturn {
  const heldBytes = gpu.available ? gpu.breakdown.ollamaBytes : null;
  // Unknown bytes prove neither the one nor the other.
  if (heldBytes === null || !ollama.online || ollama.isRemote) return state;
  if (heldBytes >= HELD) return found(state, ollama.resident.map(({ name }) => name));
  if (!isLookedAt(state) || ollama.resident.length === 0) {
    return state.missingSinceMs === null ? state : { ...state, missingSinceMs: null };
  }
  const sinceMs = state.missingSinceMs ?? atMs;
  if (atMs - sinceMs < SETTLED_MS || state.finding !== null) return { ...state, missingSinceMs: sinceMs };
  const names = ollama.resident.map(({ name }) => name).join(", ");
  const text =
    `${names} is resident and holds no VRAM by the driver since the card was opened anew: Ollama runs on the CPU`;
  return { ...state, missingSinceMs: sinceMs, finding: { isOnGpu: false, text } };
}

/** Until it is back: the owner may restart it an hour later. */
function isLookedAt({ isAwaited, finding }: OllamaReturn): boolean {
  return isAwaited && finding?.isOnGpu !== true;
}

function found(state: OllamaReturn, names: readonly string[]): OllamaReturn {
  if (!isLookedAt(state)) {
    return state.wasOnGpu && state.missingSinceMs === null ? state : { ...state, wasOnGpu: true, missingSinceMs: null };
  }
  const who = names.length === 0 ? "A runner" : names.join(", ");
  const text = `${who} holds VRAM by the driver since the card was opened anew`;
  return { wasOnGpu: true, isAwaited: false, missingSinceMs: null, finding: { isOnGpu: true, text } };
}
