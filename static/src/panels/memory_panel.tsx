import { BUCKETS } from "../buckets.ts";
import { useDashboard } from "../live/dashboard.ts";
import { Legend } from "../parts/legend.tsx";
import { ShareBar } from "../parts/share_bar.tsx";
import { Value } from "../parts/value.tsx";
import type { Stats } from "../../../lib/operations/stats.ts";
import { LaneLine } from "./lane_line.tsx";
import { RamBar } from "./ram_bar.tsx";

/** The instrument: who holds the card, to scale, and what the host's memory holds. */
export function MemoryPanel() {
  const { part } = useDashboard();
  const gpu = part.gpu.value;
  return (
    <section class="panel area-memory" aria-labelledby="memory-title">
      <div class="memory-head">
        <div>
          <h2 id="memory-title">VRAM</h2>
          <p class="hero">
            <Value of={gpu?.vram_used_gb} digits={1} why={gpu?.reason} />
            <span class="hero-of">
              {gpu?.vram_total_gb != null && (
                <>
                  of <Value of={gpu.vram_total_gb} digits={1} unit="GiB" />
                </>
              )} used
            </span>
          </p>
        </div>
        <LaneLine />
      </div>
      <div class="panel-body">
        {gpu !== null && !gpu.available && <CardDown gpu={gpu} />}
        {gpu !== null && <Vram gpu={gpu} />}
        <RamBar />
      </div>
    </section>
  );
}

function Vram({ gpu }: { readonly gpu: Stats["gpu"] }) {
  const { breakdown } = gpu;
  const figures = {
    unaccounted: breakdown.unaccounted_gb,
    desktop: breakdown.desktop_gb,
    unmanaged: breakdown.unmanaged_gb,
    ollama: breakdown.ollama_gb,
    comfy: breakdown.comfyui_gb,
    free: breakdown.free_gb,
  };
  const items = BUCKETS.map((bucket) => ({ ...bucket, gb: figures[bucket.key] }));
  const why = gpu.available ? "The driver gives no figure for a process in it" : gpu.reason;
  return (
    <>
      <ShareBar
        label="VRAM by holder"
        totalGb={gpu.vram_total_gb ?? 0}
        shares={items.filter(({ key }) => key !== "free")}
      />
      <Legend items={items} why={why} />
    </>
  );
}

function CardDown({ gpu }: { readonly gpu: Stats["gpu"] }) {
  return (
    <div class="callout callout-bad" role="alert">
      <p class="callout-title">{gpu.reason ?? `The card is ${gpu.state}`}</p>
      {gpu.remedy !== null && <p class="muted">{gpu.remedy}</p>}
    </div>
  );
}
