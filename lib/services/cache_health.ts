/** Health of the page cache's part: where models were found, and whether what is in memory can be told. */
import type { Catalogue } from "../model/catalogue.ts";
import type { Residency } from "../model/page_cache.ts";
import type { HealthCheck } from "../model/services.ts";

/** Causes that are no fault of ours or the file's: it went, or it was written to. */
const PASSING: ReadonlySet<string> = new Set(["gone", "changed", "interrupted"]);

export function checkCache(
  catalogue: Catalogue | null,
  { crash, residency }: { readonly crash: string | null; readonly residency: ReadonlyMap<string, Residency> },
): readonly HealthCheck[] {
  return [checkFolders(catalogue, crash), checkResidency([...residency.values()])];
}

function checkFolders(catalogue: Catalogue | null, crash: string | null): HealthCheck {
  const name = "model_folders";
  const breaks = "Models that aren't found can't be warmed, and their share in memory is unknown";
  if (crash !== null) {
    return { name, state: "degraded", finding: crash, breaks, remedy: "See the service's log" };
  }
  const places = catalogue?.places ?? [];
  const wrong = [...places.filter(({ problem }) => problem !== null), ...catalogue?.problems ?? []];
  const [first] = wrong;
  if (first !== undefined) {
    const more = wrong.length === 1 ? "" : ` and ${wrong.length - 1} more`;
    const finding = `${first.path}: ${first.problem}${more}`;
    return { name, state: "degraded", finding, breaks, remedy: "`hyperswap cache` lists them all" };
  }
  const files = catalogue?.files.length ?? 0;
  if (files > 0) {
    const finding = `${files} files in ${places.map(({ path }) => path).join(", ")}`;
    return { name, state: "ok", finding, breaks: null, remedy: null };
  }
  return {
    name,
    state: "not_applicable",
    finding: "No model files were found",
    breaks,
    remedy: "ollama.models and comfyui.folders in the configuration name further places",
  };
}

function checkResidency(figures: readonly Residency[]): HealthCheck {
  const name = "residency";
  const failed = figures.filter((figure) => figure.kind === "unmeasurable" && !PASSING.has(figure.cause));
  const measured = figures.flatMap((figure) => figure.kind === "measured" ? [figure] : []);
  if (measured.length + failed.length === 0) {
    return { name, state: "not_applicable", finding: "Nothing was measured yet", breaks: null, remedy: null };
  }
  const methods = [...new Set(measured.map(({ method }) => method))].join(", ");
  const [first] = failed;
  if (first?.kind === "unmeasurable") {
    return {
      name,
      state: "degraded",
      finding: `${failed.length} of ${figures.length} files can't be measured: ${first.reason}`,
      breaks: "A warm reads them whole, and a load from them can't be told warm or cold beforehand",
      remedy: "Run with CAP_FOWNER and CAP_DAC_READ_SEARCH, or keep models on a local file system without holes",
    };
  }
  const sampled = measured.filter(({ isExact }) => !isExact).length;
  const how = sampled === 0 ? "every page counted" : `${sampled} of them by random pages`;
  return { name, state: "ok", finding: `${measured.length} files by ${methods}, ${how}`, breaks: null, remedy: null };
}
