/** `/metrics` for Prometheus: the newest snapshot as gauges, what happened since the start as counters and histograms. */
import { Counter, Histogram, Registry, type RegistryContentType } from "prom-client";
import { Failure } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Timer } from "../model/ports.ts";
import type { Services, Snapshot } from "../model/services.ts";
import { gauge } from "./metrics_gauge.ts";
import { gateFigures } from "./metrics_gate.ts";
import { gpuGauges } from "./metrics_gpu.ts";

/** Seconds: a yield takes a few tenths, a load from disk half a minute. */
const TOOK_S = [0.05, 0.1, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5, 8, 15, 30, 60, 120, 300];
/** Seconds between confirmation and the winner's first allocation; below zero is late. */
const MARGIN_S = [-1, -0.5, -0.1, 0, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10];

export interface Metrics {
  /** The whole page, as the request's Accept wants it: OpenMetrics for who asks for it, else Prometheus's own text. */
  page(accept: string | null): Promise<{ readonly contentType: string; readonly text: string }>;
  close(): void;
}

/** Counts from now on, beginning with what the live history still holds of this service's time. */
export function openMetrics(services: Services): Metrics {
  const registry = new Registry();
  const gauges = [gpuGauges(registry), tenantGauges(registry), gateFigures(registry), selfGauges(registry, services)];
  const moves = new Moves(registry, services.about.startedAtMs);
  const following: Timer = services.live.subscribe(({ history }) => moves.see(history));
  /** One page after the other: the format is the registry's, not the call's. */
  let last: Promise<unknown> = Promise.resolve();
  const write = async (contentType: RegistryContentType) => {
    const snapshot = snapshotOf(services);
    if (snapshot !== null) moves.see(snapshot.history);
    for (const show of gauges) await show(snapshot);
    // as: the type was fixed by the first format, and the registry takes either.
    registry.setContentType(contentType as typeof PROMETHEUS);
    const text = await registry.metrics();
    renameCounters(registry);
    return { contentType, text };
  };
  return {
    page(accept) {
      const page = last.then(() => write(wantsOpenMetrics(accept) ? OPEN_METRICS : PROMETHEUS));
      // Whoever asked hears of a failure; the next page is written all the same.
      last = page.catch(() => {});
      return page;
    },
    close: () => following.stop(),
  };
}

const OPEN_METRICS = Registry.OPENMETRICS_CONTENT_TYPE;
const PROMETHEUS = Registry.PROMETHEUS_CONTENT_TYPE;

/** Writing OpenMetrics takes the suffix from the counters' names, and leaves it off for every page thereafter. */
function renameCounters(registry: Registry): void {
  for (const metric of registry.getMetricsAsArray()) {
    if (metric instanceof Counter && "name" in metric && typeof metric.name === "string") {
      metric.name = `${metric.name.replace(/_total$/, "")}_total`;
    }
  }
}

/** Prometheus names both with a weight each; the text format counts where neither is named. */
export function wantsOpenMetrics(accept: string | null): boolean {
  const weights = new Map(
    (accept ?? "").split(",").map((range) => {
      const [type = "", ...parameters] = range.trim().split(";").map((part) => part.trim().toLowerCase());
      const q = parameters.find((parameter) => parameter.startsWith("q="));
      const weight = q === undefined ? 1 : Number(q.slice(2));
      return [type, Number.isFinite(weight) ? weight : 0];
    }),
  );
  const open = weights.get("application/openmetrics-text") ?? 0;
  return open > 0 && open >= (weights.get("text/plain") ?? 0);
}

/** Null before the first sample. */
function snapshotOf(services: Services): Snapshot | null {
  try {
    return services.live.snapshot();
  } catch (error) {
    if (error instanceof Failure && error.code === "unavailable") return null;
    throw error;
  }
}

function tenantGauges(registry: Registry) {
  const up = gauge(registry, "tenant_up", "1 while the server answers", ["tenant"]);
  const resident = gauge(registry, "ollama_resident_models", "Models that Ollama holds");
  const queue = gauge(registry, "comfyui_queue_prompts", "Prompts running or waiting in ComfyUI");
  const source = gauge(registry, "source_up", "1 while this source of the sample answers", ["source"]);
  return (snapshot: Snapshot | null) => {
    for (const { clear } of [up, resident, queue, source]) clear();
    // A gauge without labels is 0 after a reset: taken out, it is absent until it is known.
    for (const { forget } of [resident, queue]) forget();
    if (snapshot === null) return;
    const { ollama, comfy, sources } = snapshot.sample;
    up.set(Number(ollama.online), { tenant: "ollama" });
    up.set(Number(comfy.online), { tenant: "comfyui" });
    if (ollama.online) resident.set(ollama.resident.length);
    queue.set(comfy.queueRemaining);
    for (const [name, { ok }] of Object.entries(sources)) source.set(Number(ok), { source: name });
  };
}

function selfGauges(registry: Registry, { about, history, health }: Services) {
  const info = gauge(registry, "build_info", "1; what runs is in the labels", ["version", "simulated"]);
  const state = gauge(registry, "health", "0 ok, 1 degraded, 2 broken");
  const started = gauge(registry, "start_time_seconds", "When the service started, Unix seconds");
  const memory = gauge(registry, "process_resident_bytes", "Memory of the service's process");
  const size = gauge(registry, "store_bytes", "Size of the record on disk");
  const rows = gauge(registry, "store_rows", "Rows of the record", ["table"]);
  const isKept = gauge(registry, "store_up", "1 while history is being kept");
  const flushed = gauge(registry, "store_last_flush_seconds", "When the record was last written, Unix seconds");
  return async (snapshot: Snapshot | null) => {
    info.set(1, { version: about.version, simulated: String(about.simulation !== null) });
    if (snapshot !== null) state.set(["ok", "degraded", "broken"].indexOf(health.report().state));
    started.set(about.startedAtMs / 1_000);
    memory.set(Deno.memoryUsage().rss);
    const store = await history.status();
    isKept.set(Number(store.error === null));
    size.set(store.sizeBytes);
    for (const [table, count] of Object.entries(store.rows)) rows.set(count, { table });
    flushed.set(store.lastFlushAtMs === null ? null : store.lastFlushAtMs / 1_000);
  };
}

/** Swaps, yields and purges as they are recorded; a margin may become known later. */
class Moves {
  readonly #sinceMs: number;
  readonly #seen = new Set<number>();
  readonly #margins = new Set<number>();
  readonly #swaps;
  readonly #yields;
  readonly #purges;
  readonly #margin;
  readonly #late;
  readonly #events;

  constructor(registry: Registry, sinceMs: number) {
    this.#sinceMs = sinceMs;
    const registers = [registry];
    const histogram = <L extends string>(name: string, help: string, labelNames: L[], buckets = TOOK_S) =>
      new Histogram({ name: `hyperswap_${name}`, help, labelNames, buckets, registers });
    this.#swaps = histogram("swap_load_seconds", "Loads of models, by class", ["class"]);
    this.#yields = histogram("yield_confirm_seconds", "Yields until the driver's confirmation", []);
    this.#purges = histogram("purge_confirm_seconds", "Purges until the driver's confirmation", []);
    this.#margin = histogram("hand_off_margin_seconds", "Confirmation before the first allocation", [], MARGIN_S);
    this.#late = new Counter({ name: "hyperswap_late_hand_offs_total", help: "With a negative margin", registers });
    this.#events = new Counter({
      name: "hyperswap_events_total",
      help: "Recorded events, by kind and outcome",
      labelNames: ["kind", "outcome"],
      registers,
    });
  }

  see(history: readonly HistoryItem[]): void {
    for (const item of history) {
      if (item.atMs < this.#sinceMs) continue;
      if (!this.#seen.has(item.id)) this.#count(item);
      this.#seen.add(item.id);
      const { margin_ms: marginMs } = item.fields;
      if (typeof marginMs !== "number" || this.#margins.has(item.id)) continue;
      this.#margins.add(item.id);
      this.#margin.observe(marginMs / 1_000);
      if (marginMs < 0) this.#late.inc();
    }
    // Only what is still shown can come again.
    const shown = new Set(history.map(({ id }) => id));
    for (const ids of [this.#seen, this.#margins]) for (const id of ids) if (!shown.has(id)) ids.delete(id);
  }

  #count({ kind, fields }: HistoryItem): void {
    this.#events.inc({ kind, outcome: typeof fields["outcome"] === "string" ? fields["outcome"] : "" });
    const seconds = (field: string) => typeof fields[field] === "number" ? fields[field] / 1_000 : null;
    const [load, confirm] = [seconds("load_ms"), seconds("confirm_ms")];
    if (kind === "swap" && load !== null) {
      this.#swaps.observe({ class: String(fields["class"] ?? "unclassified") }, load);
    }
    if (kind === "yield" && confirm !== null) this.#yields.observe(confirm);
    if (kind === "purge" && confirm !== null) this.#purges.observe(confirm);
  }
}
