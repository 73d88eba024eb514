/**
 * Whom a yield is about: the runner processes found when it starts, and the models Ollama lists. A listed model's
 * process is exact (manifest → weight blob → the child whose `--model` ends in it); a runner without a row is still
 * loading; a row without a runner is a ghost (the runner crashed, Ollama hasn't noticed).
 */
import { isSameModel } from "../model/model_names.ts";
import type { OllamaState, ResidentModel, Runner } from "../model/tenants.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";

export interface Target {
  readonly runner: Runner;
  /** The row's name, else what its weight blob is installed as; null when neither tells. */
  readonly model: string | null;
  /** True once `/api/ps` has listed it: only then does an unload do anything. */
  readonly isListed: boolean;
  /** `/api/ps` says that it holds VRAM. No proof of it, but a reason to expect its process on the card. */
  readonly claimsVram: boolean;
  /** What the driver first said it held; null until it says anything. */
  readonly bytesBefore: Bytes | null;
}

export interface ModelUnload {
  readonly model: string;
  /** The name it is asked by: another that its weights are installed as, once Ollama doesn't know its own any more. */
  readonly askedAs: string;
  readonly claimsVram: boolean;
  readonly sentMs: MonotonicMs | null;
  readonly repliedMs: MonotonicMs | null;
  readonly error: string | null;
  /** It was deleted while it was loaded. */
  readonly isDeleted: boolean;
  readonly attempts: number;
  /** Asked for by what its runner's weights are installed as, since `/api/ps` was silent: it may still be loading. */
  readonly isUnlisted: boolean;
}

/** Which models a yield takes: all but the kept ones, or those named. Names are compared without regard to case. */
export interface Scope {
  readonly models: readonly string[] | null;
  readonly keep: readonly string[];
}

/** Installed models and their blobs: what tells names apart. */
export type Names = Pick<OllamaState, "installed" | "blobsByDigest">;

/** True when a row belongs to the scope, by any of its names: one blob may be installed under several tags. */
export function isRowTaken(row: ResidentModel, scope: Scope, names: Names): boolean {
  return isTaken(namesOfRow(row, names), scope);
}

/** A model without any known name belongs only to a yield of everything: it may be one that is kept, or not named. */
function isTaken(names: readonly string[], scope: Scope): boolean {
  const isIn = (list: readonly string[]) => names.some((name) => list.some((other) => isSameModel(name, other)));
  if (scope.models !== null) return isIn(scope.models);
  return names.length === 0 ? scope.keep.length === 0 : !isIn(scope.keep);
}

function namesOfRow(row: ResidentModel, names: Names): readonly string[] {
  const blobs = names.blobsByDigest[row.digest] ?? [];
  const aliases = names.installed.filter(({ digest }) =>
    digest === row.digest || (names.blobsByDigest[digest] ?? []).some((blob) => blobs.includes(blob))
  );
  return [row.name, ...aliases.map((entry) => entry.name)];
}

/** What a runner's weights are installed as. */
function installedAs(runner: Runner, names: Names): readonly string[] {
  if (runner.modelName !== null) return [runner.modelName];
  const { blob } = runner;
  if (blob === null) return [];
  return names.installed.filter(({ digest }) => (names.blobsByDigest[digest] ?? []).includes(blob))
    .map((entry) => entry.name);
}

/** Pid → row. An orphan has none: its server is gone, and the rows are another server's. */
export function matchRows(
  runners: readonly Runner[],
  resident: readonly ResidentModel[],
  names: Names,
): ReadonlyMap<number, ResidentModel> {
  const rows = new Map<number, ResidentModel>();
  const children = runners.filter((runner) => !runner.isOrphan);
  for (const runner of children) {
    const row = resident.find((entry) => isCarrier(runner, entry, names));
    if (row !== undefined) rows.set(runner.pid, row);
  }
  const strangers = children.filter((runner) => !rows.has(runner.pid) && installedAs(runner, names).length === 0);
  const open = openRows(resident, rows, names);
  const [stranger] = strangers;
  const [row] = open;
  // One runner and one row whose blobs aren't known yet can only belong together.
  if (strangers.length === 1 && open.length === 1 && stranger && row) rows.set(stranger.pid, row);
  return rows;
}

function isCarrier(runner: Runner, row: ResidentModel, names: Names): boolean {
  if (runner.modelName !== null) return isSameModel(runner.modelName, row.name);
  return runner.blob !== null && (names.blobsByDigest[row.digest] ?? []).includes(runner.blob);
}

/** Rows that have no runner yet and whose blobs aren't known: any unnamed runner may be theirs. */
export function openRows(
  resident: readonly ResidentModel[],
  rows: ReadonlyMap<number, ResidentModel>,
  names: Names,
): readonly ResidentModel[] {
  const taken = new Set([...rows.values()]);
  return resident.filter((row) => !taken.has(row) && names.blobsByDigest[row.digest] === undefined);
}

/** The targets among these runners, with those known before kept, also when their process or row has gone since. */
export function findTargets(
  known: readonly Target[],
  { runners, resident, names, scope }: {
    readonly runners: readonly Runner[];
    readonly resident: readonly ResidentModel[];
    readonly names: Names;
    readonly scope: Scope;
  },
): readonly Target[] {
  const rows = matchRows(runners, resident, names);
  const found = new Map(known.map((target) => [keyOf(target.runner), target]));
  for (const runner of runners) {
    const row = rows.get(runner.pid) ?? null;
    const before = found.get(keyOf(runner));
    const aliases = row === null ? installedAs(runner, names) : namesOfRow(row, names);
    if (before === undefined && !isTaken(aliases, scope)) continue;
    found.set(keyOf(runner), {
      runner,
      model: row?.name ?? before?.model ?? aliases[0] ?? null,
      isListed: row !== null || (before?.isListed ?? false),
      claimsVram: (row?.sizeVramBytes ?? 0) > 0 || (before?.claimsVram ?? false),
      bytesBefore: before?.bytesBefore ?? null,
    });
  }
  return [...found.values()];
}

function keyOf(runner: Runner): string {
  return `${runner.pid} ${runner.startTime}`;
}

/** The unloads to ask for, none sent yet. */
export function unloadsOf(resident: readonly ResidentModel[], scope: Scope, names: Names): readonly ModelUnload[] {
  return resident.filter((row) => isRowTaken(row, scope, names)).map((row) =>
    unloadOf(row.name, { claimsVram: row.sizeVramBytes > 0, isUnlisted: false })
  );
}

/** One to ask for, not sent yet. */
export function unloadOf(
  model: string,
  { claimsVram, isUnlisted }: Pick<ModelUnload, "claimsVram" | "isUnlisted">,
): ModelUnload {
  const never = { sentMs: null, repliedMs: null, error: null, isDeleted: false, attempts: 0 };
  return { model, askedAs: model, claimsVram, isUnlisted, ...never };
}

/** Another name that a model's weights are installed as; null without one. The runner tells where its row doesn't. */
export function otherNameOf(
  model: string,
  { resident, targets, names }: {
    readonly resident: readonly ResidentModel[];
    readonly targets: readonly Target[];
    readonly names: Names;
  },
): string | null {
  const row = resident.find((entry) => entry.name === model);
  const runner = targets.find((target) => target.model === model)?.runner;
  const all = [
    ...row === undefined ? [] : namesOfRow(row, names),
    ...runner === undefined ? [] : installedAs(runner, names),
  ];
  return all.find((name) => !isSameModel(name, model)) ?? null;
}
