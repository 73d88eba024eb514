import { useDashboard } from "../live/dashboard.ts";
import { Legend } from "../parts/legend.tsx";
import { ShareBar } from "../parts/share_bar.tsx";
import { Value } from "../parts/value.tsx";

/** Host memory: what programs hold, what the page cache keeps warm, what is free. */
export function RamBar() {
  const { part } = useDashboard();
  const ram = part.ram.value;
  const why = part.sources.value?.meminfo.last_error ?? "Host memory has not been read yet";
  const items = [
    { key: "apps", label: "Applications", note: "Programs and the kernel", gb: ram?.used_gb ?? null },
    {
      key: "cache",
      label: "Page cache",
      note: "Files kept in memory: a model that is here loads from RAM instead of disk",
      gb: ram?.cached_gb ?? null,
    },
    { key: "free", label: "Free", note: "Not used for anything", gb: ram?.free_gb ?? null },
  ];
  return (
    <div class="ram">
      <div class="ram-head">
        <h3>Host RAM</h3>
        <span class="muted">
          <Value of={ram?.total_gb} digits={1} unit="GiB" why={why} />
        </span>
        <span class="faint ram-available">
          <Value of={ram?.available_gb} digits={1} unit="GiB" why={why} /> available to programs
        </span>
      </div>
      <ShareBar slim label="Host memory" totalGb={ram?.total_gb ?? 0} shares={items.slice(0, 2)} />
      <Legend items={items} why={why} />
    </div>
  );
}
