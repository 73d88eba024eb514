import type { Stats } from "../../../lib/operations/stats.ts";
import { useDashboard } from "../live/dashboard.ts";
import { Unknown, Value } from "../parts/value.tsx";
import { ProcessTable } from "./process_table.tsx";
import { SensorTile } from "./sensor_tile.tsx";
import { ThrottleLine } from "./throttle_line.tsx";

type Gpu = Stats["gpu"];

/** The card itself: how hard it works, how warm it is, what holds it back, and who is on it. */
export function GpuCard() {
  const { part } = useDashboard();
  const gpu = part.gpu.value;
  if (gpu === null) return <section class="panel wide skeleton" aria-busy="true" />;
  const why = gpu.reason ?? part.sources.value?.nvml.last_error ?? "This card or its driver doesn't report it";
  const limit = gpu.power_limit_w;
  return (
    <section class="panel wide" aria-labelledby="gpu-title">
      <div class="panel-head">
        <h2 id="gpu-title">GPU</h2>
        <span class="end">
          {gpu.pstate === null
            ? null
            : <span class="chip" title="P0 is the fastest state, P15 the slowest">{gpu.pstate}</span>}
        </span>
      </div>
      <div class="panel-body">
        <div class="tiles">
          <SensorTile column="util" label="Utilisation" of={gpu.gpu_util_pct} unit="%" max={100} why={why} />
          <SensorTile
            column="temperature"
            label="Temperature"
            of={gpu.temperature_c}
            unit="°C"
            min={20}
            max={gpu.slowdown_c ?? 95}
            why={why}
            sub={gpu.slowdown_c === null ? null : `slows at ${gpu.slowdown_c}°`}
          />
          <SensorTile
            column="power"
            label="Power"
            of={gpu.power_w}
            unit="W"
            max={limit ?? 450}
            why={why}
            sub={limit === null ? null : `limit ${limit.toFixed(0)} W`}
          />
          <SensorTile column="fan" label="Fan" of={gpu.fan_pct} unit="%" max={100} why={why} />
        </div>
        <Clocks gpu={gpu} why={why} />
        <ThrottleLine reasons={gpu.throttle_reasons} heldMs={gpu.throttled_ms} why={why} />
        {gpu.available
          ? <ProcessTable processes={gpu.breakdown.processes} />
          : <p class="empty">Who is on the card can't be read.</p>}
      </div>
    </section>
  );
}

function Clocks({ gpu, why }: { readonly gpu: Gpu; readonly why: string }) {
  const { clocks, pcie } = gpu;
  const isDowngraded = pcie.width !== null && pcie.max_width !== null && pcie.width < pcie.max_width;
  return (
    <dl class="facts facts-4">
      <div>
        <dt>Graphics clock</dt>
        <dd>
          <Value of={clocks.graphics_mhz} unit="MHz" why={why} />
        </dd>
      </div>
      <div>
        <dt>Memory clock</dt>
        <dd>
          <Value of={clocks.memory_mhz} unit="MHz" why={why} />
        </dd>
      </div>
      <div>
        <dt>Memory busy</dt>
        <dd>
          <Value of={gpu.memory_util_pct} unit="%" why={why} />
        </dd>
      </div>
      <div>
        <dt>PCIe</dt>
        <dd class={isDowngraded ? "late" : ""} title={isDowngraded ? `The card can do ×${pcie.max_width}` : undefined}>
          {pcie.gen === null || pcie.width === null ? <Unknown why={why} /> : `${pcie.gen}.0 ×${pcie.width}`}
        </dd>
      </div>
    </dl>
  );
}
