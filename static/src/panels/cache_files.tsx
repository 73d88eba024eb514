import type { Action } from "../live/action.ts";
import { start } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { type CacheFile, type CacheReport, endOfWarm } from "../live/page_cache.ts";
import { Value } from "../parts/value.tsx";
import { fixed, inReadingOrder } from "../format.ts";

/** Where a bar counts as full enough to need no button. */
const WARM_PCT = 99.5;

export interface CacheFilesProps {
  readonly report: CacheReport;
  readonly isWarming: boolean;
  readonly action: Action;
}

/** Model files by size, each with what of it is in memory and how that was found. */
export function CacheFiles({ report, isWarming, action }: CacheFilesProps) {
  if (report.files.length === 0) {
    return <p class="empty">No model files were found. Health says where they were looked for.</p>;
  }
  return (
    <ul class="cache-files">
      {report.files.map((file) => <FileRow key={file.path} file={file} isWarming={isWarming} action={action} />)}
    </ul>
  );
}

function FileRow({ file, isWarming, action }: { readonly file: CacheFile } & Omit<CacheFilesProps, "report">) {
  const name = inReadingOrder(file.models[0] ?? file.path.replace(/^.*\//, ""));
  const dashboard = useDashboard();
  const warm = () =>
    void action.run(
      `Warming ${name}`,
      async () => await endOfWarm(dashboard, await start("warm-model", { filepath: file.path })),
    );
  const pct = file.residency_pct;
  return (
    <li class="cache-file" title={`${inReadingOrder(file.path)}\n${howOf(file)}`}>
      <span class="cache-name">
        <span class={`swatch seg-${file.source === "ollama" ? "ollama" : "comfy"}`} aria-hidden="true" />
        <span class="cache-model">{name}</span>
        {file.models.length > 1 && <span class="faint">+{file.models.length - 1}</span>}
        {file.pinned && <span class="chip">pinned</span>}
      </span>
      <span class="meter cache-bar" role="img" aria-label={`${name}: ${howOf(file)}`}>
        <span class="meter-fill" style={{ width: `${(pct ?? 0).toFixed(1)}%` }} />
      </span>
      <span class="cache-pct">
        <Value of={pct} unit="%" digits={pct !== null && pct > 0 && pct < 10 ? 1 : 0} why={file.reason} />
      </span>
      <span class="cache-size muted">{sizeOf(file)}</span>
      <button
        type="button"
        class="button button-small"
        disabled={isWarming || (pct ?? 0) >= WARM_PCT}
        aria-label={`Warm ${name}`}
        onClick={warm}
      >
        Warm
      </button>
    </li>
  );
}

/** What would round to nothing is told in MB, since something is there. */
function sizeOf({ size_gb }: CacheFile): string {
  if (size_gb < 0.001) return "< 1 MB";
  if (size_gb < 0.1) return `${fixed(size_gb * 1_000)} MB`;
  return `${fixed(size_gb, size_gb < 10 ? 2 : 1)} GB`;
}

/** The figure in words: method, interval where it was sampled, age. */
function howOf(file: CacheFile): string {
  if (file.state === "unknown") return "not measured yet";
  if (file.state === "unmeasurable") return `can't be measured: ${file.reason}`;
  const interval = file.exact ? "every page counted" : `${file.samples} pages, ${file.low_pct}–${file.high_pct} %`;
  const age = file.age_s === null ? "" : `, ${Math.round(file.age_s)} s ago`;
  return `${file.residency_pct} % in memory by ${file.method} (${interval})${age}`;
}
