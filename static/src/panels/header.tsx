import { useComputed } from "@preact/signals";
import { useDashboard } from "../live/dashboard.ts";
import { HealthBadge } from "./health_badge.tsx";
import { LinkBadge } from "./link_badge.tsx";
import { ModeSwitch } from "./mode_switch.tsx";

/** Whose card this is, whether it is real, what HyperSwap may do by itself, and whether the page is current. */
export function Header() {
  const { part } = useDashboard();
  const device = useComputed(() => part.gpu.value === null ? null : part.gpu.value.device_name ?? "No GPU").value;
  const driver = useComputed(() => part.gpu.value?.driver_version ?? null).value;
  return (
    <header class="header">
      <div class="brand">
        <Mark />
        <h1>HyperSwap</h1>
      </div>
      <p class="device" title={driver === null ? undefined : `Driver ${driver}`}>
        {device ?? "Waiting for the first sample"}
      </p>
      {part.simulated.value === true && (
        <span class="badge badge-simulated" title={part.simulation.value ?? "Nothing here is real hardware"}>
          SIMULATED
        </span>
      )}
      <div class="header-end">
        <ModeSwitch />
        <HealthBadge />
        <LinkBadge />
      </div>
    </header>
  );
}

function Mark() {
  return (
    <svg class="mark" viewBox="0 0 24 24" aria-hidden="true">
      <rect class="mark-a" x="2" y="5" width="14" height="6" rx="3" />
      <rect class="mark-b" x="8" y="13" width="14" height="6" rx="3" />
    </svg>
  );
}
