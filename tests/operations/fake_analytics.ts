/** Analytics over a real, small record: what operations show is what the archive would answer. */
import type { Analytics } from "../../lib/model/services.ts";
import type { Archive } from "../../lib/model/analytics.ts";
import type { HistoryItem, Throughput } from "../../lib/model/history.ts";
import { rankModels } from "../../lib/decide/model_ranking.ts";
import { profileReport } from "../../lib/record/profile_report.ts";
import { swapReport } from "../../lib/record/swap_report.ts";
import { AnalyticsService } from "../../lib/services/analytics.ts";
import { row } from "../record/store_contract.ts";

const NOW_MS = Date.UTC(2026, 0, 1, 12);

const SWAPS: readonly HistoryItem[] = [1, 2, 3].map((id) => ({
  id,
  atMs: NOW_MS - id * 3_600_000,
  kind: "swap",
  fields: { model: id === 3 ? "llama3.1:8b" : "qwen3:14b", load_ms: 800 * id, class: "ram_hit", gb_per_s: 2.63 },
}));

const SPEEDS: readonly Throughput[] = [73.17, 73.51].map((perSecond, at) => ({
  atMs: NOW_MS,
  workload: "ollama",
  model: "qwen3:14b",
  profile: at === 0 ? null : "ollama",
  basis: "generation",
  perSecond,
  durationMs: 2_000,
  temperatureC: 61.25,
  powerW: 222,
  graphicsMhz: 2_835,
  memoryMhz: 11_251,
  fanPct: null,
  throttledPct: 0,
}));

/** Notes what it is asked, and pages exports in twos. */
export function fakeAnalytics(note: (name: string, what: unknown) => void): Analytics {
  const archive: Archive = {
    series({ metrics, fromMs, toMs, points }) {
      note("series", { metrics, fromMs, toMs, points });
      const line = { min: [1, null], avg: [1.5, null], max: [2, null] };
      return Promise.resolve({
        grain: "minute",
        bucketMs: 60_000,
        atMs: [fromMs, fromMs + 60_000],
        lines: Object.fromEntries(metrics.map((metric) => [metric, line])),
      });
    },
    profiles: () => Promise.resolve(profileReport(SPEEDS, false)),
    swaps: () => Promise.resolve(swapReport(SWAPS, false)),
    models: () => Promise.resolve(rankModels(SWAPS, NOW_MS)),
    events: ({ after }) => {
      const events = SWAPS.filter(({ id }) => id > after).slice(0, 2);
      return Promise.resolve({ events, next: events.length < 2 ? null : events[1]?.id ?? null });
    },
    telemetry: ({ fromMs }) => {
      const atMs = Math.max(fromMs, NOW_MS);
      return Promise.resolve({ rows: [row(atMs)], next: atMs === NOW_MS ? NOW_MS + 1_000 : null });
    },
    close: () => {},
  };
  return new AnalyticsService(archive, { wallMs: () => NOW_MS });
}
