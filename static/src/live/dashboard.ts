/** Everything the page knows, as signals; made once by app.tsx and handed down by context. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { computed, type ReadonlySignal, signal } from "@preact/signals";
import type { Stats } from "../../../lib/operations/stats.ts";
import { call, Refusal } from "./call.ts";
import { type LinkState, openStream } from "./stream.ts";
import { Series } from "./series.ts";
import { startTick } from "./tick.ts";
import type { HealthReport, WhyEntry } from "./wire.ts";

/** Why the log of decisions is open: the moment that was asked about, or null for the newest. */
export interface WhyRequest {
  readonly atMs: number | null;
  readonly title: string;
}

export interface Dashboard {
  readonly stats: ReadonlySignal<Stats | null>;
  /** The same, a subject at a time: a part that a frame left alone renders nothing. Null before the first frame. */
  readonly part: { readonly [Key in Part]: ReadonlySignal<Stats[Key] | null> };
  readonly link: ReadonlySignal<LinkState>;
  /** The service's wall clock as far as this page can tell; moves once a second. */
  readonly nowMs: ReadonlySignal<number>;
  /** How old the newest data is, ms; null before the first. */
  readonly ageMs: ReadonlySignal<number | null>;
  readonly health: ReadonlySignal<HealthReport | null>;
  /** Why health couldn't be asked, or null. */
  readonly healthError: ReadonlySignal<string | null>;
  readonly series: Series;
  readonly why: ReadonlySignal<WhyRequest | null>;
  openWhy(request: WhyRequest): void;
  closeWhy(): void;
  loadWhy(signal: AbortSignal): Promise<readonly WhyEntry[]>;
}

const PARTS = [
  "simulated",
  "simulation",
  "gpu",
  "ram",
  "ollama",
  "comfyui",
  "arbitration",
  "tuning",
  "history",
  "runs",
  "sources",
] as const;
export type Part = typeof PARTS[number];

const HEALTH_EVERY_MS = 10_000;

/** Connects and keeps everything current until the page goes. */
export function createDashboard(): Dashboard {
  const stats = signal<Stats | null>(null);
  const link = signal<LinkState>({ kind: "connecting" });
  const pageNowMs = signal(Date.now());
  const offsetMs = signal(Number.POSITIVE_INFINITY);
  const why = signal<WhyRequest | null>(null);
  const series = new Series();
  series.restore();

  const publish = startTick((next: Stats) => {
    stats.value = next;
    pageNowMs.value = Date.now();
  });
  openStream({
    onStats: (next) => {
      // The least delay ever seen tells the two clocks apart; what is more than that is age.
      offsetMs.value = Math.min(offsetMs.peek(), Date.now() - next.timestamp * 1_000);
      series.push(next);
      publish(next);
    },
    onLink: (next) => {
      if (next.kind !== "live" || link.peek().kind !== "live") link.value = next;
    },
  });
  setInterval(() => (pageNowMs.value = Date.now()), 1_000);
  addEventListener("pagehide", () => series.save());

  const nowMs = computed(() => pageNowMs.value - (Number.isFinite(offsetMs.value) ? offsetMs.value : 0));
  const ageMs = computed(() => stats.value === null ? null : Math.max(0, nowMs.value - stats.value.timestamp * 1_000));
  return {
    stats,
    part: partsOf(stats),
    link,
    nowMs,
    ageMs,
    series,
    why,
    ...watchHealth(),
    openWhy: (request) => (why.value = request),
    closeWhy: () => (why.value = null),
    loadWhy: async (signal) => (await call("why", { limit: 100 }, signal)).decisions,
  };
}

function partsOf(stats: ReadonlySignal<Stats | null>): Dashboard["part"] {
  const entries = PARTS.map((key) => [key, computed(() => stats.value?.[key] ?? null)]);
  // fromEntries forgets the keys that it was given; PARTS has exactly those of Part.
  return Object.fromEntries(entries) as unknown as Dashboard["part"];
}

function watchHealth(): Pick<Dashboard, "health" | "healthError"> {
  const health = signal<HealthReport | null>(null);
  const healthError = signal<string | null>(null);
  const ask = async () => {
    if (document.visibilityState === "hidden") return;
    try {
      health.value = await call("health", {}, AbortSignal.timeout(HEALTH_EVERY_MS - 1_000));
      healthError.value = null;
    } catch (error) {
      healthError.value = error instanceof Refusal ? error.message : "Health was not answered in time";
    }
  };
  void ask();
  setInterval(() => void ask(), HEALTH_EVERY_MS);
  document.addEventListener("visibilitychange", () => void ask());
  return { health, healthError };
}

const Context = createContext<Dashboard | null>(null);
export const DashboardProvider = Context.Provider;

/** The page's state, anywhere below DashboardProvider. */
export function useDashboard(): Dashboard {
  const dashboard = useContext(Context);
  if (dashboard === null) throw new TypeError("Cannot use the dashboard outside DashboardProvider");
  return dashboard;
}
