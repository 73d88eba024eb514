/** A switch takes seconds, so it is started as a run and followed: it goes on if this page is closed. */
import type { Said } from "./action.ts";
import { start } from "./call.ts";
import type { Dashboard } from "./dashboard.ts";
import { resultOf } from "./run_result.ts";
import type { Switched } from "./wire.ts";
import { duration } from "../format.ts";

const CLASSES: Readonly<Record<string, string>> = {
  ram_hit: "from RAM",
  partial: "partly from RAM",
  cold: "from disk",
};

export async function switchModel(
  dashboard: Dashboard,
  { model, keepAlive }: { readonly model: string; readonly keepAlive: string },
): Promise<Said> {
  const run = await start("switch-model", { model, keep_alive: keepAlive });
  // A run's result is the answer of its operation: this one started a switch.
  return saySwitched(await resultOf(dashboard, { id: run.id, what: "The switch" }) as Switched);
}

function saySwitched(answer: Switched): Said {
  const how = CLASSES[answer.class];
  const parts = [
    answer.load_duration_ms === null ? null : `loaded in ${duration(answer.load_duration_ms)}`,
    answer.gb_per_s === null ? null : `${answer.gb_per_s.toFixed(2)} GB/s`,
    how ?? null,
    answer.vram_gb === null ? null : `${answer.vram_gb.toFixed(1)} GiB VRAM`,
  ].filter((part) => part !== null);
  return {
    tone: answer.spilled === true ? "warn" : "ok",
    title: `${answer.target_model} ${parts.length === 0 ? "is resident" : parts.join(", ")}`,
    detail: answer.verdict,
  };
}
