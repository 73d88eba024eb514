/**
 * Whom a yield is about: the runner processes found when it starts, and the models Ollama lists. A listed model's
 * process is exact (manifest → weight blob → the child whose `--model` ends in it); a runner without a row is still
 * loading; a row without a runner is a ghost (the runner crashed, Ollama hasn't noticed).
 */
import type { Breakdown } from "../model/sample.ts";
import type { OllamaState, ResidentModel, Runner } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";

export interface Target {
  readonly runner: Runner;
  /** The row it belongs to; null while it is loading or unknown to Ollama. */
  readonly model: string | null;
  /** What the driver said it held when the yield started; null when it didn't say. */
  readonly bytesBefore: Bytes | null;
  /** True when it surely holds VRAM, yet the driver lists no bytes for it: nothing can be confirmed then. */
  readonly isUnmeasured: boolean;
}

export interface ModelUnload {
  readonly model: string;
  readonly digest: string;
  readonly sentMs: MonotonicMs | null;
  readonly repliedMs: MonotonicMs | null;
  readonly error: string | null;
}

/** Which models a yield takes: all but the kept ones, or those named. Names are compared without regard to case. */
export interface Scope {
  readonly models: readonly string[] | null;
  readonly keep: readonly string[];
}

export function isInScope(name: string, scope: Scope): boolean {
  const same = (other: string) => canonical(other) === canonical(name);
  if (scope.models !== null) return scope.models.some(same);
  return !scope.keep.some(same);
}

/** The form in which names are compared: lower case, with a tag, without the default host and namespace. */
export function canonical(name: string): string {
  const lower = name.toLowerCase().replace(/^registry\.ollama\.ai\//, "").replace(/^library\//, "");
  return lower.lastIndexOf(":") > lower.lastIndexOf("/") ? lower : `${lower}:latest`;
}

/** The row a runner belongs to, or null. */
export function rowOf(
  runner: Runner,
  resident: readonly ResidentModel[],
  blobsByDigest: OllamaState["blobsByDigest"],
): ResidentModel | null {
  for (const row of resident) {
    if (runner.blob !== null && (blobsByDigest[row.digest] ?? []).includes(runner.blob)) return row;
    if (runner.modelName !== null && canonical(runner.modelName) === canonical(row.name)) return row;
  }
  // One runner and one row whose blobs aren't known yet can only belong together.
  const only = resident.length === 1 ? resident[0] : undefined;
  return only !== undefined && blobsByDigest[only.digest] === undefined && runner.modelName === null ? only : null;
}

/**
 * The targets among the runners. A runner without a row belongs to a yield of everything (it is loading and will take
 * memory); a yield of named models leaves it alone, and so does one that keeps models, since it may be a kept one.
 */
export function targetsOf(
  runners: readonly Runner[],
  { ollama, resident, scope, breakdown }: {
    readonly ollama: OllamaState;
    readonly resident: readonly ResidentModel[];
    readonly scope: Scope;
    readonly breakdown: Breakdown | null;
  },
): readonly Target[] {
  const targets: Target[] = [];
  for (const runner of runners) {
    const row = rowOf(runner, resident, ollama.blobsByDigest);
    const isTaken = row === null ? scope.models === null && scope.keep.length === 0 : isInScope(row.name, scope);
    if (!isTaken) continue;
    const process = breakdown?.processes.find((entry) => entry.pid === runner.pid);
    const claimsVram = (row?.sizeVramBytes ?? 0) > 0;
    targets.push({
      runner,
      model: row?.name ?? null,
      bytesBefore: process === undefined ? (breakdown === null || claimsVram ? null : 0) : process.usedBytes,
      isUnmeasured: breakdown === null || (process === undefined ? claimsVram : process.usedBytes === null),
    });
  }
  return targets;
}

/** The unloads to ask for, none sent yet. */
export function unloadsOf(resident: readonly ResidentModel[], scope: Scope): readonly ModelUnload[] {
  return resident.filter((row) => isInScope(row.name, scope)).map((row) => ({
    model: row.name,
    digest: row.digest,
    sentMs: null,
    repliedMs: null,
    error: null,
  }));
}

/** Listed models that no process of the server carries. */
export function ghostsOf(unloads: readonly ModelUnload[], targets: readonly Target[]): readonly string[] {
  return unloads.filter((unload) => !targets.some((target) => target.model === unload.model)).map((unload) =>
    unload.model
  );
}
