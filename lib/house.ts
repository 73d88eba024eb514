/**
 * The house over its ports: the household that decides and acts, the loop that is its pulse, and the services that doors
 * ask. It opens nothing itself, so the same house stands over hardware and over the lab; app.ts opens what it stands on.
 */
import type { HousePorts } from "./house_ports.ts";
import { Household } from "./household.ts";
import { type HouseEvent, type HouseState, initialHouse, runLoop } from "./loop.ts";
import { messageOf } from "./model/failure.ts";
import type { Services } from "./model/services.ts";
import { telemetryRow } from "./record/recorder.ts";
import { firstAnswers } from "./sample/first_answers.ts";
import type { AdmissionService } from "./services/admission.ts";
import { AnalyticsService, NO_ARCHIVE } from "./services/analytics.ts";
import { checkTuning } from "./services/card_health.ts";
import { firstTuning } from "./services/card_keeper.ts";
import { HealthService } from "./services/health.ts";
import { HistoryService } from "./services/history.ts";
import { createLogins } from "./services/logins.ts";
import { ModelsService } from "./services/models.ts";
import { readPast } from "./services/past.ts";
import type { RunKeeper } from "./services/runs.ts";
import { type StoreWatch, watchStore } from "./services/store_watch.ts";

/** What an ordered end may take before it is given up on. */
const CLOSE_MS = 5_000;

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
  const past = await readPast({ store, clock, log, isOwner: ports.tuning !== undefined });
  const card = await firstTuning(ports.tuning ?? null, log);
  const household = new Household(ports, { first: initialHouse(ports.policy, { ...past.learned, card }), past });
  const storeWatch = watchStore(store, { clock, log });
  const first = Promise.withResolvers<void>();
  const stopping = new AbortController();
  const loop = startLoop(ports, household, { onFirst: first.resolve, signal: stopping.signal });
  const close = async () => {
    stopping.abort(new Error("shutdown"));
    household.stopWatching();
    storeWatch.stop();
    household.send({ type: "stopped", atMs: clock.monotonicMs() });
    household.arbiter.admission.close();
    const ended = Promise.all([loop.catch(() => {}), household.settled()]);
    await Promise.race([ended, clock.sleep(CLOSE_MS)]);
  };
  return {
    services: servicesOf(ports, household, storeWatch),
    admission: household.arbiter.admission,
    runs: household.runs,
    ready: first.promise,
    over: loop,
    send: (event) => household.send(event),
    state: () => household.state,
    close,
  };
}

/** The pulse; see loop.ts. What it ends with is told and left to whoever waits for it. */
function startLoop(
  ports: HousePorts,
  household: Household,
  { onFirst, signal }: { readonly onFirst: () => void; readonly signal: AbortSignal },
): Promise<void> {
  const { clock, log } = ports;
  const { sampler, evidence, cache, live, arbiter } = household;
  const hasAsked = firstAnswers([household.ollama.watch, household.comfy.watch], clock);
  const loop = runLoop({
    clock,
    sample: async () => {
      await hasAsked;
      return await sampler.sample();
    },
    decide: (event) => household.send(event),
    record: (sample) => {
      const row = telemetryRow(sample);
      evidence.second(row);
      ports.record(row);
    },
    show: (sample) => {
      cache.tick(sample, arbiter.arbitration.view());
      live.publish(sample);
    },
    ticked: (sample) => {
      onFirst();
      ports.ticked(sample);
    },
  }, signal);
  loop.catch((error) => log.error("The loop has ended", { error: messageOf(error) }));
  return loop;
}

/** What operations may ask for. */
function servicesOf(ports: HousePorts, household: Household, storeWatch: StoreWatch): Services {
  const { clock, store, about } = ports;
  const { arbiter, cache, card, live } = household;
  return {
    about,
    logins: createLogins(clock),
    arbitration: arbiter.arbitration,
    planner: arbiter.planner,
    live,
    analytics: new AnalyticsService(ports.archive ?? NO_ARCHIVE, clock),
    history: new HistoryService(store, about.startedAtMs),
    benchmark: arbiter.benchmark,
    autotune: household.autotune,
    runs: household.runs,
    health: new HealthService({
      sample: () => household.state.arbiter.sample,
      arbitration: () => arbiter.arbitration.view(),
      store: storeWatch.status,
      ...(ports.cache === undefined ? {} : { cache: () => cache.checks() }),
      gate: () => arbiter.admission.check(),
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
}
