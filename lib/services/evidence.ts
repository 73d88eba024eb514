import type { HistoryItem, TelemetryRow, Throughput } from "../model/history.ts";
import type { ComfyCompletion, Store } from "../model/ports.ts";
import type { TimedSteps } from "../sample/step_rate.ts";

/** Seconds that are kept to be joined with a speed: a long generation's. */
const KEPT = 900;
/** Thermal (hardware, software) and power brake, as the governor counts them. */
const THROTTLED = 0x60 | 0x80;
/** A generation behind a load: its own time isn't told, so the newest seconds stand for it. */
const LEAST_WINDOW_MS = 2_000;

export interface EvidenceParts {
  readonly store: Pick<Store, "throughput">;
  /** The profile that is applied now; null = none. */
  readonly profile: () => string | null;
}

/** Speeds of ordinary use, each with what the card did meanwhile: what profiles are judged by. */
export class EvidenceKeeper {
  readonly #parts: EvidenceParts;
  #rows: TelemetryRow[] = [];

  constructor(parts: EvidenceParts) {
    this.#parts = parts;
  }

  /** Every second. */
  second(row: TelemetryRow): void {
    this.#rows.push(row);
    if (this.#rows.length > KEPT) this.#rows.shift();
  }

  /** An event that was recorded: a swap whose prompt ran long enough tells tokens a second. */
  recorded({ kind, atMs, fields }: HistoryItem): void {
    const { tokens_per_sec: perSecond, model, spilled } = fields;
    if (kind !== "swap" || typeof perSecond !== "number" || perSecond <= 0 || typeof model !== "string") return;
    const totalMs = numberOr(fields["total_ms"], 0);
    const durationMs = Math.max(LEAST_WINDOW_MS, totalMs - numberOr(fields["load_ms"], 0));
    // A model that lies partly outside VRAM measures the bus, not the card.
    const basis = spilled === true ? "generation, spilled" : "generation";
    this.note({ atMs, durationMs, workload: "ollama", model, basis, perSecond });
  }

  /** A prompt that ended, with the steps that were seen of it. */
  completed(completion: ComfyCompletion, timed: TimedSteps | null, nowMs: number): void {
    const { status, endedAtMs, work } = completion;
    // Without its model and size a speed can't be compared with any other.
    if (status !== "success" || work == null) return;
    const speed = timed === null ? wholePrompt(completion) : { ...timed, basis: work.size };
    if (speed === null) return;
    const { perSecond, durationMs, basis } = speed;
    this.note({ atMs: endedAtMs ?? nowMs, durationMs, workload: "comfy", model: work.model, basis, perSecond });
  }

  note(
    speed: Pick<Throughput, "atMs" | "workload" | "model" | "basis" | "perSecond"> & { readonly durationMs: number },
  ) {
    const during = this.#rows.filter(({ atMs }) => atMs > speed.atMs - speed.durationMs - 1_000 && atMs <= speed.atMs);
    const mean = (of: (row: TelemetryRow) => number | null) => {
      const known = during.map(of).filter((value) => value !== null);
      return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length;
    };
    this.#parts.store.throughput({
      ...speed,
      profile: this.#parts.profile(),
      temperatureC: mean((row) => row.temperatureC),
      powerW: mean((row) => row.powerW),
      graphicsMhz: mean((row) => row.graphicsMhz),
      memoryMhz: mean((row) => row.memoryMhz),
      fanPct: mean((row) => row.fanPct),
      throttledPct: mean(({ throttleReasons: bits }) => bits === null ? null : (bits & THROTTLED) === 0 ? 0 : 100),
    });
  }
}

/** Nothing samples faster, and nothing shorter can be told by the millisecond. */
const MOST_PER_SECOND = 500;
const LEAST_PROMPT_MS = 200;

/**
 * Most frontends have their steps told to themselves alone. The history then still has a prompt's steps and how long all
 * of it took: slower than its sampler by what encoding and decoding take, so that it is compared with its like only. A
 * prompt that loaded its model, or answered from the cache, tells nothing of the card.
 */
function wholePrompt({ work, cached, startedAtMs, endedAtMs }: ComfyCompletion) {
  if (work?.steps === undefined || startedAtMs === null || endedAtMs === null) return null;
  if (cached?.model !== true || cached.sampler) return null;
  const durationMs = endedAtMs - startedAtMs;
  const perSecond = work.steps / durationMs * 1_000;
  if (durationMs < LEAST_PROMPT_MS || perSecond > MOST_PER_SECOND) return null;
  return { perSecond, durationMs, basis: `${work.size}, ${work.steps} steps, whole prompt` };
}

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
