import { useDashboard } from "../live/dashboard.ts";
import type { LoadedModel } from "../live/wire.ts";
import { Value } from "../parts/value.tsx";
import { span } from "../format.ts";

/** One model in memory: what the driver counts for it, what Ollama says, and when it leaves by itself. */
export function ResidentModel({ model }: { readonly model: LoadedModel }) {
  const inVramPct = model.memory_gb > 0 ? Math.min(100, (model.reported_vram_gb / model.memory_gb) * 100) : 0;
  return (
    <li class="model">
      <div class="model-line">
        <b class="model-name" title={model.name}>{model.name}</b>
        {model.spilled && (
          <span class="chip chip-warn" title="Part of it lies in host memory and is computed by the CPU: much slower">
            {(100 - inVramPct).toFixed(0)}% spilled
          </span>
        )}
        <span class="model-figure">
          <Value of={model.vram_gb} digits={1} unit="GiB" why="The driver doesn't say what its runner holds" />
        </span>
      </div>
      <div class="meter" role="img" aria-label={`${inVramPct.toFixed(0)} % of it lies in VRAM`}>
        <span class="meter-fill seg-ollama" style={{ width: `${inVramPct.toFixed(1)}%` }} />
      </div>
      <p class="model-sub">
        <span title="What Ollama says it takes in all">{model.memory_gb.toFixed(1)} GiB in all</span>
        {model.context_length !== null && <span>{model.context_length.toLocaleString("en")} context</span>}
        {model.pid !== null && <span>pid {model.pid}</span>}
        <Expiry at={model.expires_at} />
      </p>
    </li>
  );
}

/** Ollama writes "for ever" as a date some 292 years ahead. */
const FOR_EVER_MS = 10 * 365 * 86_400_000;

function Expiry({ at }: { readonly at: string | null }) {
  const { nowMs } = useDashboard();
  const leftMs = at === null ? Number.POSITIVE_INFINITY : Date.parse(at) - nowMs.value;
  if (leftMs > FOR_EVER_MS) return <span class="model-expiry">stays until unloaded</span>;
  return <span class="model-expiry">{leftMs > 0 ? `leaves in ${span(leftMs)}` : "leaving"}</span>;
}
