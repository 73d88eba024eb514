/** Names for parts of what the operations answer. The types are theirs; nothing is declared a second time. */
import type { Stats } from "../../../lib/operations/stats.ts";
import type { Answer } from "./call.ts";

export type HistoryItem = Stats["history"][number];
export type Run = Stats["runs"][number];
export type GpuProcess = Stats["gpu"]["breakdown"]["processes"][number];
export type LoadedModel = Stats["ollama"]["loaded_models"][number];
/** What is set on the card; where nothing can be set there is none. */
export type Tuning = NonNullable<Stats["tuning"]>;
export type Arbitration = Stats["arbitration"];
export type Mode = Arbitration["mode"];
export type HealthReport = Answer<"health">;
export type HealthCheck = HealthReport["checks"][number];
export type WhyEntry = Answer<"why">["decisions"][number];
export type Yielded = Answer<"free-vram">;
export type Purged = Answer<"comfy-free">;
export type Switched = Answer<"switch-model">;
