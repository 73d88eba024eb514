/** Transitions in words: the same record answers "why did it do that?" on every door. */
import { causeWord } from "../model/arbitration.ts";
import type { ArbiterEffect, ArbiterEvent } from "../model/events.ts";
import { toGib } from "../model/units.ts";
import type { ArbiterState, LaneJob } from "./arbiter_state.ts";

/** Where a job stands, in words: what a caller sees as progress. */
export function describeJob(job: LaneJob): string {
  switch (job.kind) {
    case "yield":
      return job.phase === "opening"
        ? "finding what Ollama holds"
        : "waiting for the driver to have Ollama's memory back";
    case "purge":
      return {
        quiet: "waiting for a quiet moment of ComfyUI",
        asking: "asking ComfyUI to free its memory",
        falling: "waiting for ComfyUI's memory to fall",
      }[
        job.phase
      ];
    case "requestVram":
      return job.purge === null ? "looking at what is free" : describeJob(job.purge);
    case "endRunner":
      return `ending pid ${job.process.pid} and waiting for the driver to have its memory back`;
    case "reload":
      return describeReload(job);
    case "switch":
      return describeSwitch(job);
    case "hold":
      return job.purpose;
  }
}

function describeReload({ step, request }: Extract<LaneJob, { kind: "reload" }>): string {
  const isLooking = step.name === "start" || step.name === "look";
  return isLooking ? `seeing whether ${request.model} does nothing` : describeJob(step.job);
}

function describeSwitch({ step, request }: Extract<LaneJob, { kind: "switch" }>): string {
  switch (step.name) {
    case "yield":
    case "purge":
      return describeJob(step.job);
    case "wait":
      return "waiting until ComfyUI surely sees the hand-off";
    case "load":
      return `loading ${request.model}`;
    case "settle":
      return "reading back what was loaded";
    case "explain":
      return "seeing who holds the rest";
  }
}

export function describeState(state: ArbiterState): string {
  const lane = state.holder === null
    ? "lane free"
    : `lane: ${state.holder.job.kind} for ${causeWord(state.holder.job.cause)} (${describeJob(state.holder.job)})`;
  const waiting = state.waiting.length === 0 ? "" : `, ${state.waiting.length} waiting`;
  const margin = state.margin === null ? "" : ", watching the winner's first allocation";
  return `mode ${state.mode}, ${lane}${waiting}${margin}`;
}

export function describeEvent(event: ArbiterEvent): string {
  switch (event.type) {
    case "sampled":
      return "a new sample";
    case "comfyActivity":
      return `ComfyUI's queue holds ${event.queueRemaining}`;
    case "requested":
      return `${event.operation} was asked for`;
    case "cancelled":
      return "a caller cancelled";
    case "configured":
      return "the configuration was read again";
    case "modeSet":
      return `mode set to ${event.change.mode}`;
    case "reading":
      return `driver: ${toGib(event.reading.usedBytes)} GB used, ${event.reading.processes.length} processes`;
    case "barrierLost":
      return `the driver stopped answering: ${event.reason}`;
    case "unloadReplied":
      return event.error === null
        ? `Ollama took the unload of ${event.model}`
        : `Ollama refused to unload ${event.model}: ${event.error}`;
    case "runnersListed":
      return `${event.runners.length} runners among Ollama's children`;
    case "residentListed":
      return event.resident === null ? "/api/ps didn't answer in time" : `/api/ps lists ${event.resident.length}`;
    case "promptEnded":
      return "a prompt of ComfyUI's has ended";
    case "runnersChanged":
      return `${event.runners.length} runners among Ollama's children now`;
    case "runnersProbed":
      return `${event.probes.length} runners looked at`;
    case "freeReplied":
      return `/free: ${event.reply.kind}`;
    case "loadEnded":
      return event.outcome.ok ? "the load ended well" : `the load failed: ${event.outcome.message}`;
    case "runnerEnded":
      return `the end of a runner: ${event.reply.kind}`;
    case "woke":
      return "a deadline came";
    case "ownPrompt":
      return event.isOpen ? "a prompt of our own is posted" : "a prompt of our own has ended";
    case "warmed":
      return "models were read into memory";
    case "stopped":
      return "shutdown";
  }
}

/** Effects worth telling: what was done to somebody, said to somebody, or kept. Null = housekeeping. */
export function describeEffect(effect: ArbiterEffect): string | null {
  switch (effect.kind) {
    case "unload":
      return `ask Ollama to unload ${effect.model}`;
    case "freeComfy":
      return "ask ComfyUI to free its memory, right after two empty reads of its queue";
    case "load":
      return `load ${effect.request.model}`;
    case "endRunner":
      return `end pid ${effect.process.pid}`;
    case "abort":
      return "hang up on what is under way";
    case "record":
      return `record a ${effect.item.kind}`;
    case "amend":
      return "complete a record";
    case "resolve":
      return `answer: ${
        effect.reply.kind === "refused" ? `refused (${effect.reply.refusal.code})` : effect.reply.kind
      }`;
    case "openBarrier":
      return "stream readings from the driver";
    case "closeBarrier":
    case "listRunners":
    case "listResident":
    case "probeRunners":
    case "wakeAt":
      return null;
  }
}
