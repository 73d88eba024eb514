/** An event of the record, read for the timeline. Fields are named by whoever recorded them: each may be missing. */
import type { HistoryItem } from "./wire.ts";

export interface HistoryEvent {
  readonly id: number;
  readonly atMs: number;
  readonly kind: string;
  readonly cause: string | null;
  readonly models: readonly string[];
  readonly requestMs: number | null;
  readonly confirmMs: number | null;
  readonly marginMs: number | null;
  readonly loadMs: number | null;
  readonly freedGb: number | null;
  readonly gbPerS: number | null;
  readonly class: string | null;
  readonly outcome: string | null;
  readonly message: string | null;
  /** Why there is no margin, once that is known. */
  readonly marginReason: string | null;
  /** What a lost race may have cost, and what helps; null while nothing was lost. */
  readonly consequence: string | null;
  readonly remedy: string | null;
  readonly isLate: boolean;
  /** Its winner was held at the gate until then. */
  readonly isGated: boolean;
  /** How long the longest request was held for it. */
  readonly heldMs: number | null;
}

export function readEvent(item: HistoryItem): HistoryEvent {
  const number = (key: string) => (typeof item[key] === "number" ? item[key] : null);
  const text = (key: string) => (typeof item[key] === "string" && item[key] !== "" ? item[key] : null);
  const listed = Array.isArray(item["models"]) ? item["models"].map(String) : [];
  const model = text("model") ?? text("target_model");
  const marginMs = number("margin_ms");
  return {
    id: item.id,
    atMs: Date.parse(item.at),
    kind: item.kind,
    cause: text("cause"),
    models: listed.length > 0 || model === null ? listed : [model],
    requestMs: number("request_ms"),
    confirmMs: number("confirm_ms"),
    marginMs,
    loadMs: number("load_ms"),
    freedGb: number("freed_gb"),
    gbPerS: number("gb_per_s"),
    class: text("class"),
    outcome: text("outcome"),
    message: text("message") ?? text("verdict") ?? text("reason") ?? text("finding"),
    marginReason: text("margin_reason"),
    consequence: text("consequence"),
    remedy: text("remedy"),
    isLate: marginMs !== null && marginMs < 0,
    isGated: item["gated"] === true,
    heldMs: number("held_ms"),
  };
}
