/** The list of everything that can be asked of HyperSwap. REST, OpenAPI, MCP and CLI are loops over it. */
import type * as z from "zod";
import { analyticsModels, analyticsProfiles, analyticsSwaps, analyticsTimeseries } from "./analytics.ts";
import { arbitration, setArbitration, why } from "./arbitration.ts";
import { benchmark } from "./benchmark.ts";
import { cacheReport, warmPlan } from "./cache.ts";
import { endRunner } from "./end_runner.ts";
import { dashboard } from "./dashboard.ts";
import type { Download } from "./download.ts";
import { exportRecord } from "./export.ts";
import { fan, setFan } from "./fan.ts";
import { governor, setGovernor } from "./governor.ts";
import { gpu } from "./gpu.ts";
import { health, version } from "./health.ts";
import { db, history } from "./history.ts";
import { memory } from "./memory.ts";
import { models } from "./models.ts";
import { pin, setPinned, unpin } from "./pin.ts";
import { footprints, plan } from "./plan.ts";
import { applyProfile, confirmChange, deleteProfile, overclock, restore, saveProfile, setLever } from "./overclock.ts";
import { cancelRun, run, runEvents, runs } from "./runs.ts";
import { stats } from "./stats.ts";
import { autotune, autotuneCancel, autotuneSweep } from "./autotune.ts";
import { stream } from "./stream.ts";
import { switchModel } from "./switch_model.ts";
import { comfyFree, freeVram, requestVram } from "./vram.ts";
import { warmAll, warmCancel, warmModel } from "./warm.ts";
import type { Feed, Operation } from "./operation.ts";

const OPERATIONS = [
  stats,
  gpu,
  memory,
  models,
  cacheReport,
  warmPlan,
  arbitration,
  why,
  plan,
  footprints,
  history,
  analyticsProfiles,
  analyticsSwaps,
  analyticsTimeseries,
  analyticsModels,
  db,
  health,
  runs,
  run,
  version,
  dashboard,
  switchModel,
  freeVram,
  comfyFree,
  requestVram,
  endRunner,
  warmAll,
  warmModel,
  warmCancel,
  pin,
  unpin,
  setPinned,
  benchmark,
  setArbitration,
  fan,
  setFan,
  overclock,
  applyProfile,
  saveProfile,
  deleteProfile,
  setLever,
  confirmChange,
  restore,
  governor,
  setGovernor,
  autotune,
  autotuneSweep,
  autotuneCancel,
  cancelRun,
] as const;

/** Every operation, in the order that help and documents show. */
export const operations: readonly Operation[] = OPERATIONS;

/** Every live feed. */
export const feeds: readonly Feed[] = [stream, runEvents];

/** Everything that is handed over as text. */
export const downloads: readonly Download[] = [exportRecord];

/** What each operation takes and answers, by name: the types of the dashboard's client. */
export type Operations = {
  [O in typeof OPERATIONS[number] as O["name"]]: {
    readonly input: z.input<O["input"]>;
    readonly output: z.output<O["output"]>;
  };
};

/** The operation of that name; its absence is a mistake in the program. */
export function operationNamed(name: string): Operation {
  const found = operations.find((operation) => operation.name === name);
  if (found === undefined) throw new TypeError(`Cannot find an operation named ${name}`);
  return found;
}
