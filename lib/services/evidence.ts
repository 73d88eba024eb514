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
  completed({ status, endedAtMs, work }: ComfyCompletion, timed: TimedSteps | null, nowMs: number): void {
    // Without its model and size a speed can't be compared with any other.
    if (status !== "success" || timed === null || work == null) return;
    const { perSecond, durationMs } = timed;
    this.note({
      atMs: endedAtMs ?? nowMs,
      durationMs,
      workload: "comfy",
      model: work.model,
      basis: work.size,
      perSecond,
    });
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

function numberOr(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
