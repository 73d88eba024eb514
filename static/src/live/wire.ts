/** Answers of operations as the page reads them. The service checked them by its schemas; here only types are added. */
import type { Stats } from "../../../lib/operations/stats.ts";

export type HistoryItem = Stats["history"][number];
export type Run = Stats["runs"][number];
export type GpuProcess = Stats["gpu"]["breakdown"]["processes"][number];
export type LoadedModel = Stats["ollama"]["loaded_models"][number];
export type Mode = Stats["arbitration"]["mode"];

export type CheckState = "ok" | "degraded" | "broken" | "not_applicable";

export interface HealthCheck {
  readonly name: string;
  readonly state: CheckState;
  readonly finding: string;
  readonly breaks: string | null;
  readonly remedy: string | null;
}

export interface HealthReport {
  readonly state: "ok" | "degraded" | "broken";
  readonly checks: readonly HealthCheck[];
}

export interface WhyEntry {
  readonly id: number;
  readonly at: string;
  readonly event: string;
  readonly before: string;
  readonly after: string;
  readonly effects: readonly string[];
  readonly reason: string;
}

/** What a yield and a purge answer alike. */
export interface Released {
  readonly outcome: string;
  readonly request_ms: number | null;
  readonly confirm_ms: number | null;
  readonly freed_gb: number | null;
  readonly confirmed_by: string | null;
  readonly message: string;
}

export interface Switched {
  readonly target_model: string;
  readonly load_duration_ms: number | null;
  readonly total_duration_ms: number;
  readonly class: string;
  readonly gb_per_s: number | null;
  readonly vram_gb: number | null;
  readonly spilled: boolean | null;
  readonly verdict: string;
}

// The casts below name what the service's schemas have checked before sending; the names are theirs.

export function asHealth(answer: unknown): HealthReport {
  return answer as HealthReport;
}

export function asWhy(answer: unknown): readonly WhyEntry[] {
  return (answer as { readonly decisions: readonly WhyEntry[] }).decisions;
}

export function asReleased(answer: unknown): Released {
  return answer as Released;
}

export function asSwitched(answer: unknown): Switched {
  return answer as Switched;
}
