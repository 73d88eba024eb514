/** What to read into the page cache, in which order, and what to leave out: a list with a reason for each file. Pure. */
import type { PlanSkip, PlanStep, SkipCause, WarmPlan } from "../model/cache.ts";
import type { Catalogue, CatalogueEntry } from "../model/catalogue.ts";
import type { Residency } from "../model/page_cache.ts";
import type { HostMemory } from "../model/sample.ts";
import type { Bytes, WallMs } from "../model/units.ts";
import { type Usage, useKey, type Uses } from "./model_uses.ts";
import { isConfidentlyResident } from "./warm_skip.ts";

/** A model that was never used here is worth a little: half of that at a month's age of its file. */
const UNUSED_WEIGHT = 0.05;
const UNUSED_HALF_LIFE_MS = 30 * 86_400_000;
/** Above any other: what was unloaded a moment ago is what is asked for next. */
const NEXT_WEIGHT = 1_000;
const HOUR_MS = 3_600_000;

export interface PlanFacts {
  readonly catalogue: Catalogue;
  readonly uses: Uses;
  /** By path; absent = not measured. */
  readonly residency: ReadonlyMap<string, Residency>;
  readonly pinned: ReadonlySet<string>;
  readonly budget: { readonly bytes: Bytes; readonly basis: string };
  /** Reads even what is in memory already. */
  readonly force: boolean;
  readonly nowMs: WallMs;
}

interface Candidate {
  readonly path: string;
  readonly names: readonly string[];
  readonly sizeBytes: Bytes;
  readonly residency: Residency | null;
  readonly weight: number;
  readonly because: string;
}

/** The share of what is free or page cache that model files may take when nobody sets a budget. */
export const BUDGET_SHARE = 0.8;

/** Pages that are locked stay where they are, so they are nothing that a budget could hand out. */
export function defaultBudget(memory: HostMemory, pinnedBytes: Bytes): PlanFacts["budget"] {
  const bytes = Math.max(0, Math.floor(BUDGET_SHARE * (memory.freeBytes + memory.cachedBytes - pinnedBytes)));
  const less = pinnedBytes === 0 ? "" : `, less ${gb(pinnedBytes)} GB pinned`;
  return { bytes, basis: `${BUDGET_SHARE * 100} % of free memory and page cache${less}` };
}

/** Files by what each GB is expected to save, as long as the budget lasts. */
export function planWarm(facts: PlanFacts): Omit<WarmPlan, "probed"> {
  const { budget, uses } = facts;
  const steps: PlanStep[] = [];
  const skipped: PlanSkip[] = [];
  const { candidates, left } = sortOut(facts);
  skipped.push(...left);
  let roomBytes = budget.bytes;
  let keptBytes = 0;
  for (const candidate of candidates) {
    const { path, names, sizeBytes, residency, weight, because } = candidate;
    const isPinned = facts.pinned.has(path);
    const isResident = residency !== null && isConfidentlyResident(residency);
    const about = { path, names, sizeBytes };
    // Locked pages were taken off the budget before.
    if (isPinned) {
      skipped.push({ ...about, cause: "pinned", why: "its pages are locked: it is in memory whatever happens" });
    } else if (isResident && !facts.force) {
      const taken = Math.min(sizeBytes, roomBytes);
      roomBytes -= taken;
      keptBytes += taken;
      skipped.push({ ...about, cause: "resident", why: residentWhy(residency) });
    } else if (sizeBytes > roomBytes) {
      skipped.push({ ...about, cause: "budget", why: beyond(sizeBytes, roomBytes, budget.bytes) });
    } else {
      roomBytes -= sizeBytes;
      const readBytes = facts.force ? sizeBytes : sizeBytes - residentBytes(residency);
      const savedS = (readBytes / 1e9) * uses.savedSPerGb;
      steps.push({ ...about, readBytes, savedS, score: weight * uses.savedSPerGb, why: because, residency });
    }
  }
  const readBytes = steps.reduce((sum, step) => sum + step.readBytes, 0);
  return { budgetBytes: budget.bytes, budgetBasis: budget.basis, steps, skipped, readBytes, keptBytes };
}

/** A file's models decide what it is worth; what nobody can load is left out. */
function sortOut(facts: PlanFacts): { readonly candidates: readonly Candidate[]; readonly left: readonly PlanSkip[] } {
  const users = new Map<string, CatalogueEntry[]>();
  for (const entry of facts.catalogue.entries) {
    for (const path of entry.files) users.set(path, [...users.get(path) ?? [], entry]);
  }
  const candidates: Candidate[] = [];
  const left: PlanSkip[] = [];
  for (const file of facts.catalogue.files) {
    const entries = users.get(file.path) ?? [];
    const names = entries.map(labelOf);
    const cause = unusable(entries);
    if (cause !== null) {
      left.push({ path: file.path, names, sizeBytes: file.sizeBytes, ...cause });
      continue;
    }
    if (file.sizeBytes === 0) continue;
    const worth = worthOf(entries, file.modifiedAtMs, facts);
    const residency = facts.residency.get(file.path) ?? null;
    candidates.push({ path: file.path, names, sizeBytes: file.sizeBytes, residency, ...worth });
  }
  // The smaller of two that are worth the same leaves more room for others.
  const byWorth = (a: Candidate, b: Candidate) =>
    b.weight - a.weight || a.sizeBytes - b.sizeBytes || (a.path < b.path ? -1 : 1);
  return { candidates: candidates.toSorted(byWorth), left };
}

/** A model as people name it: ComfyUI's with its folder. */
export function labelOf({ folder, name }: Pick<CatalogueEntry, "folder" | "name">): string {
  return folder === null ? name : `${folder}/${name}`;
}

function unusable(entries: readonly CatalogueEntry[]): { readonly cause: SkipCause; readonly why: string } | null {
  if (entries.some(({ isShadowed, problem }) => !isShadowed && problem === null)) return null;
  const broken = entries.find(({ problem }) => problem !== null);
  if (broken !== undefined) return { cause: "broken", why: broken.problem ?? "" };
  return { cause: "shadowed", why: "another store, which comes first, has a model of this name" };
}

function worthOf(
  entries: readonly CatalogueEntry[],
  modifiedAtMs: WallMs | null,
  { uses, nowMs }: PlanFacts,
): { readonly weight: number; readonly because: string } {
  const keys = entries.map(({ source, name }) => ({ source, key: useKey(source, name) }));
  const next = uses.yielded.findIndex((name) => keys.some(({ source, key }) => source === "ollama" && key === name));
  const found = keys.flatMap(({ source, key }) => uses.bySource[source].get(key) ?? []);
  const usage = found.toSorted((a, b) => b.weight - a.weight)[0] ?? null;
  if (next >= 0) {
    const ago = usage === null ? "" : ` ${since(nowMs - usage.lastAtMs)} ago`;
    return { weight: NEXT_WEIGHT / (next + 1), because: `it was unloaded${ago} and is asked for next, most likely` };
  }
  if (usage !== null) return { weight: usage.weight, because: usedWhy(usage, nowMs) };
  const ageMs = modifiedAtMs === null ? UNUSED_HALF_LIFE_MS : Math.max(0, nowMs - modifiedAtMs);
  const weight = UNUSED_WEIGHT * 0.5 ** (ageMs / UNUSED_HALF_LIFE_MS);
  return { weight, because: `not used since the record began; its file is ${since(ageMs)} old` };
}

function usedWhy({ count, lastAtMs }: Usage, nowMs: WallMs): string {
  return `used ${count === 1 ? "once" : `${count} times`}, last ${since(nowMs - lastAtMs)} ago`;
}

/** A probe stops at the first page that isn't there, so it says nothing of how many are. */
const LEAST_ESTIMATE = 256;

function residentBytes(residency: Residency | null): Bytes {
  if (residency?.kind !== "measured") return 0;
  return residency.isExact || (residency.samples ?? 0) >= LEAST_ESTIMATE ? residency.residentBytes : 0;
}

function residentWhy(residency: Residency): string {
  if (residency.kind === "unmeasurable") return residency.reason;
  const pct = Math.floor(residency.share * 1_000) / 10;
  return residency.isExact
    ? `it is in memory already: ${pct} % (${residency.method})`
    : `it is in memory already: all of ${residency.samples} random pages (${residency.method})`;
}

function beyond(sizeBytes: Bytes, roomBytes: Bytes, budgetBytes: Bytes): string {
  if (sizeBytes > budgetBytes) return `its ${gb(sizeBytes)} GB are more than the whole budget`;
  return `its ${gb(sizeBytes)} GB don't fit in the ${gb(roomBytes)} GB that are left of the budget`;
}

function gb(bytes: Bytes): string {
  return (bytes / 1e9).toFixed(bytes < 1e8 ? 3 : 1);
}

function since(ms: number): string {
  if (ms < HOUR_MS) return `${Math.max(1, Math.round(ms / 60_000))} min`;
  if (ms < 48 * HOUR_MS) return `${Math.round(ms / HOUR_MS)} h`;
  return `${Math.round(ms / (24 * HOUR_MS))} days`;
}
