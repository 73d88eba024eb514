import { useDashboard } from "../live/dashboard.ts";
import { Legend } from "../parts/legend.tsx";
import { ShareBar } from "../parts/share_bar.tsx";
import { Value } from "../parts/value.tsx";
import type { Stats } from "../../../lib/operations/stats.ts";
import { fixed } from "../format.ts";

type Ram = NonNullable<Stats["ram"]>;

/** Host memory: what programs hold, what the page cache keeps warm and of which models, what is free. */
export function RamBar() {
  const { part } = useDashboard();
  const ram = part.ram.value;
  const why = part.sources.value?.meminfo.last_error ?? "Host memory has not been read yet";
  const items = [
    { key: "apps", label: "Applications", note: "Programs and the kernel", gb: ram?.used_gb ?? null },
    { key: "cache", label: "Page cache", note: "Files kept in memory", gb: ram?.cached_gb ?? null },
    { key: "models", label: "Of which model files", note: noteOfModels(ram), gb: ram?.model_files_gb ?? null },
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
      <ShareBar slim label="Host memory" totalGb={ram?.total_gb ?? 0} shares={ram === null ? [] : sharesOf(ram)} />
      <Legend items={items} why={ram === null ? why : "Model files have not been measured yet"} />
    </div>
  );
}

/** The page cache in two where that is known: its model files, measured a little earlier than the whole, and the rest. */
function sharesOf({ used_gb, cached_gb, model_files_gb }: Ram) {
  const apps = { key: "apps", label: "Applications", gb: used_gb };
  if (model_files_gb === null) return [apps, { key: "cache", label: "Page cache", gb: cached_gb }];
  const models = Math.min(model_files_gb, cached_gb);
  return [
    apps,
    { key: "models", label: "Model files in the page cache", gb: models },
    { key: "cache", label: "Rest of the page cache", gb: cached_gb - models },
  ];
}

function noteOfModels(ram: Ram | null): string {
  const what = "A model that is in memory loads from there instead of disk";
  if (ram === null || ram.model_residency_pct === null) return what;
  return `${what}: ${fixed(ram.model_residency_pct, 1)} % of ${fixed(ram.model_files_total_gb ?? 0, 1)} GiB is`;
}
