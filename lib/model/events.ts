/**
 * What the arbiter hears and what it asks for. Times, samples and results arrive as events; effects are data with a
 * reason, carried out by act/ and answered by further events.
 */
import type { ArbiterReply, ArbiterRequest, ModeChange } from "./arbitration.ts";
import type { LoadResidency } from "./cache.ts";
import type { NewHistoryItem } from "./history.ts";
import type { ComfyCompletion, LoadReply, LoadRequest, RunnerTold } from "./ports.ts";
import type { Policy } from "./policy.ts";
import type { BarrierReading, Sample } from "./sample.ts";
import type { ProcessId, ResidentModel, Runner } from "./tenants.ts";
import type { MonotonicMs } from "./units.ts";

/** Marks the job an effect was decided for; a result that carries an older one is ignored. */
export type Generation = number;

/** Generations a job may use for its steps, so that a late result of one step is never taken for the next one's. */
export const GENERATIONS_PER_JOB = 16;
/** Of requests that belong to no job: nobody waits for their results. */
export const NO_JOB: Generation = 0;

/** What a runner was seen doing at one moment. */
export interface RunnerProbe extends ProcessId, RunnerTold {
  /** User + system time in seconds so far; null when the process is gone or unreadable. */
  readonly cpuSeconds: number | null;
}

/** How a `/free` ended: it is sent only right after two prompt, empty reads of the queue. */
export type FreeReply =
  | { readonly kind: "sent"; readonly requestMs: number; readonly sentAtMs: MonotonicMs }
  | { readonly kind: "occupied"; readonly running: number; readonly pending: number }
  | { readonly kind: "slow"; readonly slowestMs: number }
  | { readonly kind: "failed"; readonly message: string };

export type LoadOutcome =
  | {
    readonly ok: true;
    readonly reply: LoadReply;
    /** How much of it lay in memory just before; absent or null where that couldn't be told in time. */
    readonly residency?: LoadResidency | null;
  }
  | {
    readonly ok: false;
    readonly message: string;
    readonly isOutOfMemory: boolean;
    readonly isUnknownModel: boolean;
  };

/** What became of a process that was to be ended. */
export type EndRunnerReply =
  | { readonly kind: "signalled" }
  /** It had gone by itself. */
  | { readonly kind: "gone" }
  /** The pid belongs to another process by now; nothing was done to it. */
  | { readonly kind: "other_process" }
  | { readonly kind: "failed"; readonly message: string };

export type ArbiterEvent =
  & { readonly atMs: MonotonicMs }
  & (
    | { readonly type: "sampled"; readonly sample: Sample }
    /** The count of a status frame or queue read: the earliest sign of work there is. */
    | { readonly type: "comfyActivity"; readonly queueRemaining: number }
    | { readonly type: "requested"; readonly request: ArbiterRequest; readonly operation: string }
    | { readonly type: "cancelled"; readonly requestId: string }
    | { readonly type: "modeSet"; readonly change: ModeChange }
    /** The owner's configuration was read again. */
    | { readonly type: "configured"; readonly policy: Policy }
    | { readonly type: "reading"; readonly reading: BarrierReading }
    | { readonly type: "barrierLost"; readonly reason: string }
    | {
      readonly type: "unloadReplied";
      readonly generation: Generation;
      readonly model: string;
      /** Null when Ollama took the request; its words otherwise. */
      readonly error: string | null;
      /** It doesn't know the name: the model was deleted while it was loaded. */
      readonly isUnknown: boolean;
    }
    | { readonly type: "runnersListed"; readonly generation: Generation; readonly runners: readonly Runner[] }
    | {
      readonly type: "residentListed";
      readonly generation: Generation;
      /** Null when `/api/ps` didn't answer in time. */
      readonly resident: readonly ResidentModel[] | null;
    }
    /** The server's children have changed since they were last looked at, four times a second. */
    | { readonly type: "runnersChanged"; readonly runners: readonly Runner[] }
    /** A prompt of ComfyUI's has ended. `workflow`: its model files and size, by which like is compared with like. */
    | {
      readonly type: "promptEnded";
      readonly promptId: string;
      readonly status: ComfyCompletion["status"];
      readonly workflow: string | null;
      /** A sampler's step without the load; null where its frames go to its submitter alone. */
      readonly stepMs: number | null;
    }
    | { readonly type: "runnersProbed"; readonly generation: Generation; readonly probes: readonly RunnerProbe[] }
    | { readonly type: "freeReplied"; readonly generation: Generation; readonly reply: FreeReply }
    | { readonly type: "loadEnded"; readonly generation: Generation; readonly outcome: LoadOutcome }
    | { readonly type: "runnerEnded"; readonly generation: Generation; readonly reply: EndRunnerReply }
    | { readonly type: "woke"; readonly generation: Generation }
    /** A prompt of our own is about to be posted, or has ended: nothing is decided of it. */
    | { readonly type: "ownPrompt"; readonly isOpen: boolean }
    /** A warm has ended and was recorded. */
    | { readonly type: "warmed"; readonly fields: Readonly<Record<string, unknown>> }
    | { readonly type: "stopped" }
  );

export type ArbiterEffect =
  & { readonly reason: string }
  & (
    | { readonly kind: "openBarrier" }
    | { readonly kind: "closeBarrier" }
    | { readonly kind: "unload"; readonly generation: Generation; readonly model: string }
    /** The server's children, from /proc: answers at once. */
    | { readonly kind: "listRunners"; readonly generation: Generation }
    /** `/api/ps`, with its own short deadline: it may stall for seconds while a runner is killed. */
    | { readonly kind: "listResident"; readonly generation: Generation }
    | { readonly kind: "probeRunners"; readonly generation: Generation; readonly runners: readonly Runner[] }
    | { readonly kind: "freeComfy"; readonly generation: Generation }
    | { readonly kind: "load"; readonly generation: Generation; readonly request: LoadRequest }
    /** Ends that process and no later one; the server is never ended. */
    | { readonly kind: "endRunner"; readonly generation: Generation; readonly process: ProcessId }
    /** Ends what was started for the job of that (first) generation and still runs: a load is hung up on. */
    | { readonly kind: "abort"; readonly generation: Generation }
    | { readonly kind: "wakeAt"; readonly generation: Generation; readonly atMs: MonotonicMs }
    /** `key` names the event for a later amend. */
    | { readonly kind: "record"; readonly key: string; readonly item: Omit<NewHistoryItem, "atMs"> }
    | { readonly kind: "amend"; readonly key: string; readonly fields: Readonly<Record<string, unknown>> }
    | { readonly kind: "resolve"; readonly requestId: string; readonly reply: ArbiterReply }
  );

/** What one event does: the next state, and the work to be carried out. */
export interface Step<State, Effect> {
  readonly state: State;
  readonly effects: readonly Effect[];
}

export type Reduce<State, Event, Effect> = (state: State, event: Event) => Step<State, Effect>;
