/**
 * The house over its ports: watchers, sampler, mailbox, services and the loop, joined. It opens nothing itself, so the
 * same house stands over hardware and over the lab; app.ts opens what it stands on.
 */
import { Machine } from "./act/machine.ts";
import { Performer } from "./act/perform.ts";
import { activeProfile } from "./decide/card_wishes.ts";
import type { Learned } from "./decide/arbiter_state.ts";
import { type HouseEffect, type HouseEvent, type HouseState, initialHouse, reduceHouse, runLoop } from "./loop.ts";
import { messageOf } from "./model/failure.ts";
import type { HistoryItem, StoreStatus, TelemetryRow } from "./model/history.ts";
import type { Archive } from "./model/analytics.ts";
import type { Policy } from "./model/policy.ts";
import type { Clock, ComfyCompletion, EndRunner, Gpu, Log, OllamaApi, Proc, Store, Timer } from "./model/ports.ts";
import type { Sample, SourceReport } from "./model/sample.ts";
import type { About, Services } from "./model/services.ts";
import { isGateEffect, isGateEvent } from "./model/gate.ts";
import { isSweepEffect } from "./model/autotune.ts";
import { isTuneEffect } from "./model/tuning.ts";
import { telemetryRow } from "./record/recorder.ts";
import { watchComfy } from "./sample/comfy_watch.ts";
import { watchOllama } from "./sample/ollama_watch.ts";
import { watchRunners } from "./sample/runner_watch.ts";
import { Sampler } from "./sample/sampler.ts";
import type { TenantProcesses } from "./sample/tenant_processes.ts";
import { AdmissionService } from "./services/admission.ts";
import { AnalyticsService, NO_ARCHIVE } from "./services/analytics.ts";
import { ArbitrationService } from "./services/arbitration.ts";
import { AutotuneService } from "./services/autotune.ts";
import { checkTuning } from "./services/card_health.ts";
import { BenchmarkService } from "./services/benchmark.ts";
import { CardKeeper, firstTuning, type TuningPorts } from "./services/card_keeper.ts";
import { CacheKeeper, type CachePorts } from "./services/cache_keeper.ts";
import { DecisionLog } from "./services/decisions.ts";
import { EvidenceKeeper } from "./services/evidence.ts";
import { seedFootprints, seedLoads } from "./services/footprints.ts";
import { HealthService } from "./services/health.ts";
import { HistoryService } from "./services/history.ts";
import { LiveService } from "./services/live.ts";
import { createLogins } from "./services/logins.ts";
import { ModelsService } from "./services/models.ts";
import { NO_CACHE } from "./services/no_cache.ts";
import { PlannerService } from "./services/planner.ts";
import { createRuns, type RunKeeper } from "./services/runs.ts";
import type { ComfyClient } from "./upstream/comfy.ts";

/** How the store is asked about itself, for health. */
const STORE_STATUS_MS = 10_000;
/** Swaps that footprints are learned from at start. */
const SEED_SWAPS = 1_000;
/** Warms that show what the disk can do. */
const SEED_WARMS = 50;
/** How long the first sample waits for the servers' first answers: a refusal is there at once, a stall isn't. */
const FIRST_ANSWER_MS = 500;
const FIRST_ANSWER_STEP_MS = 10;
/** What an ordered end may take before it is given up on. */
const CLOSE_MS = 5_000;

const NO_BLOBS: Readonly<Record<string, readonly string[]>> = {};

export interface HousePorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly gpu: Gpu;
  readonly proc: Proc;
  readonly ollama: OllamaApi;
  readonly comfy: ComfyClient;
  readonly store: Store;
  /** Long reads of the record; left out, there is nothing to look back on. */
  readonly archive?: Archive;
  readonly tenants: TenantProcesses;
  /** Names of display servers and compositors, for attribution. */
  readonly desktop: readonly string[];
  readonly record: (row: TelemetryRow) => void;
  readonly policy: Policy;
  readonly about: About;
  /** Model files and the page cache; left out, nothing is catalogued or warmed. */
  readonly cache?: CachePorts;
  /** Ends one process; left out, nothing can be ended. */
  readonly endRunner?: EndRunner;
  /** The card's writer; left out, nothing is set. */
  readonly tuning?: TuningPorts;
  /** Fed by completed ticks. What it throws ends the loop. */
  readonly ticked: (sample: Sample) => void;
}

export interface House {
  readonly services: Services;
  /** What the gate's proxies ask. */
  readonly admission: AdmissionService;
  readonly runs: RunKeeper;
  /** Resolves once the first sample is in. */
  readonly ready: Promise<void>;
  /** Resolves when the loop has ended as it was told to; rejects when it broke: nothing is sampled or decided then. */
  readonly over: Promise<void>;
  send(event: HouseEvent): void;
  state(): HouseState;
  /** Stops deciding, ends runs and watchers, keeps what is still to be kept. The ports stay open. */
  close(): Promise<void>;
}

/** Joins everything and starts the loop. */
export async function openHouse(ports: HousePorts): Promise<House> {
  const { clock, log, store } = ports;
  const past = await readPast(ports);
  const firstCard = await firstTuning(ports.tuning ?? null, log);
  const decisions = new DecisionLog(log);
  const runs = createRuns({
    clock,
    onDefect: (error, run) =>
      log.error(`Defect in a run of ${run.operation}`, { error: messageOf(error), run: run.id }),
  });
  const evidence = new EvidenceKeeper({
    store,
    profile: () => activeProfile(machine.state.card)?.profile.name ?? null,
  });
  const live: LiveService = new LiveService({
    log,
    arbitration: () => arbitration.view(),
    runs: () => runs.list(),
    simulation: ports.about.simulation,
    comfy: () => comfyWatch.state(),
    cache: () => cache.service.totals(),
    tuning: () => ({ card: card.service.tuning(), governor: card.service.governor() }),
  });
  live.restore(past.items);
  const { learned } = past;
  const initial = initialHouse(ports.policy, { ...learned, card: firstCard });
  const machine = new Machine<HouseState, HouseEvent, HouseEffect>(initial, {
    reduce: reduceHouse,
    perform: (effect) => {
      if (isGateEffect(effect)) return admission.perform(effect);
      if (isTuneEffect(effect)) return card.perform(effect);
      if (isSweepEffect(effect)) return autotune.perform(effect);
      performer.perform(effect);
    },
    record: (transition) => {
      decisions.noteAll(transition, clock.wallMs());
      const { event, effects } = transition;
      // A reading moves nothing that is shown.
      if (event.type === "reading" && effects.length === 0) return;
      admission.report();
      // What is let through at once, thousands of times a minute, shows with the next second.
      if (isGateEvent(event) && transition.before.gate.waiting === transition.state.gate.waiting) return;
      arbitration.report();
      autotune.report();
      if (event.type !== "sampled") live.touch();
    },
  });
  // A defect in one decision costs that decision: the state is as it was, and the next event finds it so.
  const send = (event: HouseEvent) => {
    try {
      machine.send(event);
    } catch (error) {
      log.error(`Defect in a decision on ${event.type}`, { error: stackOf(error) });
    }
  };
  const arbitration: ArbitrationService = new ArbitrationService({
    clock,
    state: () => machine.state.arbiter,
    send,
    decisions: () => decisions.all(),
    gate: () => admission.view(),
  });
  const admission: AdmissionService = new AdmissionService({
    clock,
    state: () => machine.state.gate,
    arbiter: () => machine.state.arbiter,
    send,
    amend: (key, fields, reason) => performer.perform({ kind: "amend", key, fields, reason }),
  });
  const benchmark = new BenchmarkService({
    clock,
    log,
    store,
    arbitration,
    state: () => machine.state.arbiter,
    onRecorded: (item) => live.remember(item),
  });
  const autotune: AutotuneService = new AutotuneService({
    ...ports,
    arbitration,
    state: () => machine.state,
    send,
    onRecorded: (item) => live.remember(item),
  });
  const performer = new Performer({
    ...ports,
    policy: () => machine.state.arbiter.policy,
    residencyBefore: (model) => cache.service.residencyBefore(model),
    listRunners: () => sampler.runners(),
    send,
    resolve: (requestId, reply) => admission.resolve(requestId, reply) || arbitration.resolve(requestId, reply),
    onRecorded: (item) => {
      live.remember(item);
      evidence.recorded(item);
    },
  });
  const card: CardKeeper = new CardKeeper({
    ...ports,
    tuning: ports.tuning ?? null,
    state: () => machine.state.card,
    send,
    onRecorded: (item) => live.remember(item),
  });
  const cache: CacheKeeper = new CacheKeeper({
    ...ports,
    ...ports.cache ?? NO_CACHE,
    isOllamaRemote: ports.ollama.isRemote,
    runs,
    sample: () => machine.state.arbiter.sample,
    load: (model, call) => {
      const { keepAlive } = machine.state.arbiter.policy.load;
      return arbitration.switchModel({ model, keepAlive, prompt: null, operation: "warm-model" }, call);
    },
    onRecorded: (item) => {
      live.remember(item);
      if (item.kind === "warm") send({ type: "warmed", atMs: clock.monotonicMs(), fields: item.fields });
    },
  });
  const ollamaWatch = watchOllama({
    api: ports.ollama,
    clock,
    storeBlobs: () => cache.catalogue.latest()?.blobsByDigest ?? NO_BLOBS,
  });
  const comfyWatch = watchComfy({
    api: ports.comfy,
    clock,
    onActivity: ({ atMs, queueRemaining }) => {
      send({ type: "comfyActivity", atMs, queueRemaining });
      benchmark.comfyHeard(queueRemaining);
    },
    onCompleted: (completion, timed) => {
      log.debug("A prompt ended", { prompt: completion.promptId, status: completion.status });
      // A sweep's own prompts are no ordinary use.
      if (autotune.completed(completion, timed)) return;
      evidence.completed(completion, timed, clock.wallMs());
      const { promptId, status } = completion;
      const stepMs = timed === null ? null : 1_000 / timed.perSecond;
      send({
        type: "promptEnded",
        atMs: clock.monotonicMs(),
        promptId,
        status,
        workflow: workflowOf(completion),
        stepMs,
      });
      cache.noteUse(completion.files ?? []);
    },
  });
  const runnerWatch = watchRunners({
    proc: ports.proc,
    clock,
    log,
    server: () => machine.state.arbiter.sample?.ollama.server ?? null,
    onChange: (runners) => send({ type: "runnersChanged", atMs: clock.monotonicMs(), runners }),
  });
  const storeWatch = watchStore(store, { clock, log });
  const sampler = new Sampler({
    ...ports,
    isSimulated: ports.about.simulation !== null,
    ollama: ollamaWatch,
    comfy: comfyWatch,
  });
  const first = Promise.withResolvers<void>();
  const stopping = new AbortController();
  const hasAsked = firstAnswers([ollamaWatch, comfyWatch], clock);
  const loop = runLoop({
    clock,
    sample: async () => {
      await hasAsked;
      return await sampler.sample();
    },
    decide: send,
    record: (sample) => {
      const row = telemetryRow(sample);
      evidence.second(row);
      ports.record(row);
    },
    show: (sample) => {
      cache.tick(sample, arbitration.view());
      live.publish(sample);
    },
    ticked: (sample) => {
      first.resolve();
      ports.ticked(sample);
    },
  }, stopping.signal);
  loop.catch((error) => log.error("The loop has ended", { error: messageOf(error) }));

  const services: Services = {
    about: ports.about,
    logins: createLogins(clock),
    arbitration,
    planner: new PlannerService({ clock, store, state: () => machine.state.arbiter }),
    live,
    analytics: new AnalyticsService(ports.archive ?? NO_ARCHIVE, clock),
    history: new HistoryService(store, ports.about.startedAtMs),
    benchmark,
    autotune,
    runs,
    health: new HealthService({
      sample: () => machine.state.arbiter.sample,
      arbitration: () => arbitration.view(),
      store: storeWatch.status,
      ...(ports.cache === undefined ? {} : { cache: () => cache.checks() }),
      gate: () => admission.check(),
      tuning: () => checkTuning(card.service.tuning(), card.service.governor()),
    }),
    models: new ModelsService({
      clock,
      comfy: ports.comfy,
      snapshot: () => live.snapshot(),
      catalogue: () => cache.catalogue.latest(),
      residency: (path) => cache.service.book.get(path),
    }),
    cache: cache.service,
    card: card.service,
  };

  const close = async () => {
    stopping.abort(new Error("shutdown"));
    ollamaWatch.stop();
    comfyWatch.stop();
    runnerWatch.stop();
    cache.stop();
    storeWatch.stop();
    send({ type: "stopped", atMs: clock.monotonicMs() });
    admission.close();
    const ended = Promise.all([
      loop.catch(() => {}),
      runs.close(),
      performer.settled(),
      card.settled(),
      autotune.settled(),
    ]);
    await Promise.race([ended, clock.sleep(CLOSE_MS)]);
  };
  return { services, admission, runs, ready: first.promise, over: loop, send, state: () => machine.state, close };
}

/** By its model files, and its size where the graph says so: what is like it takes as much and as long. */
function workflowOf({ files = [], work }: ComfyCompletion): string | null {
  if (files.length === 0) return null;
  return [[...new Set(files)].sort().join(" + "), ...(work === undefined ? [] : [work.size])].join(", ");
}

function stackOf(error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error);
}

/** Resolves when each watcher has heard something, good or bad, or has waited long enough for the first sample. */
async function firstAnswers(
  watches: readonly { report(): SourceReport }[],
  clock: Clock,
): Promise<void> {
  const untilMs = clock.monotonicMs() + FIRST_ANSWER_MS;
  const hasHeard = ({ lastOkAtMs, lastError }: SourceReport) => lastOkAtMs !== null || lastError !== null;
  while (clock.monotonicMs() < untilMs && !watches.every((watch) => hasHeard(watch.report()))) {
    await clock.sleep(FIRST_ANSWER_STEP_MS);
  }
}

/** What an earlier service left: the newest events, and what its swaps had shown. */
async function readPast(
  { store, log }: HousePorts,
): Promise<{ readonly items: readonly HistoryItem[]; readonly learned: Learned }> {
  try {
    const items = await store.history({ limit: 50, kind: null, before: null, durable: true });
    const swaps = await store.history({ limit: SEED_SWAPS, kind: "swap", before: null, durable: true });
    const warms = await store.history({ limit: SEED_WARMS, kind: "warm", before: null, durable: true });
    return { items, learned: { footprints: seedFootprints(swaps), loads: seedLoads(swaps, warms) } };
  } catch (error) {
    log.warn("Cannot read what was kept earlier", { error: messageOf(error) });
    return { items: [], learned: {} };
  }
}

/** Asks the store about itself from time to time, so that health answers at once. */
function watchStore(
  store: Store,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Timer & { readonly status: () => StoreStatus | null } {
  let latest: StoreStatus | null = null;
  const ask = () => {
    store.status().then((status) => {
      latest = status;
    }, (error) => log.warn("Cannot ask the store about itself", { error: messageOf(error) }));
  };
  ask();
  const timer = clock.every(STORE_STATUS_MS, ask);
  return { status: () => latest, stop: () => timer.stop() };
}
