/**
 * Who lives in the house: one mailbox, a keeper for each tenant and each subject, and what they tell each other. What is
 * decided goes to the keeper whose effect it is, and comes back to the mailbox as events.
 */
import { Machine, type Transition } from "./act/machine.ts";
import { activeProfile } from "./decide/card_wishes.ts";
import { type HouseEffect, type HouseEvent, type HouseState, reduceHouse } from "./loop.ts";
import type { HousePorts } from "./house_ports.ts";
import { isSweepEffect } from "./model/autotune.ts";
import { messageOf } from "./model/failure.ts";
import { isGateEffect, isGateEvent } from "./model/gate.ts";
import { isTuneEffect } from "./model/tuning.ts";
import { Sampler } from "./sample/sampler.ts";
import { ArbiterKeeper } from "./services/arbiter_keeper.ts";
import { AutotuneService } from "./services/autotune.ts";
import { CacheKeeper } from "./services/cache_keeper.ts";
import { CardKeeper } from "./services/card_keeper.ts";
import { ComfyKeeper } from "./services/comfy_keeper.ts";
import { DecisionLog } from "./services/decisions.ts";
import { EvidenceKeeper } from "./services/evidence.ts";
import { LearnedKeeper } from "./services/learned_keeper.ts";
import { LiveService } from "./services/live.ts";
import { NO_CACHE } from "./services/no_cache.ts";
import { OllamaKeeper } from "./services/ollama_keeper.ts";
import type { Past } from "./services/past.ts";
import { createRuns, type RunKeeper } from "./services/runs.ts";

const NO_BLOBS: Readonly<Record<string, readonly string[]>> = {};

export class Household {
  readonly runs: RunKeeper;
  readonly live: LiveService;
  readonly evidence: EvidenceKeeper;
  readonly arbiter: ArbiterKeeper;
  readonly autotune: AutotuneService;
  readonly card: CardKeeper;
  readonly cache: CacheKeeper;
  readonly ollama: OllamaKeeper;
  readonly comfy: ComfyKeeper;
  readonly sampler: Sampler;
  readonly #ports: HousePorts;
  readonly #machine: Machine<HouseState, HouseEvent, HouseEffect>;
  readonly #decisions: DecisionLog;
  readonly #learned: LearnedKeeper;

  /** `first`: where every reducer begins. The tenants are watched from here on; the first second is the loop's. */
  constructor(ports: HousePorts, { first, past }: { readonly first: HouseState; readonly past: Past }) {
    this.#ports = ports;
    this.#decisions = new DecisionLog(ports.log);
    this.#learned = new LearnedKeeper(ports);
    this.#machine = new Machine(first, {
      reduce: reduceHouse,
      perform: (effect) => this.#perform(effect),
      record: (transition) => this.#record(transition),
    });
    this.runs = this.#openRuns(past);
    this.evidence = new EvidenceKeeper({
      store: ports.store,
      profile: () => activeProfile(this.state.card)?.profile.name ?? null,
    });
    this.live = this.#openLive(past);
    this.arbiter = this.#openArbiter();
    this.autotune = new AutotuneService({
      ...ports,
      ...this.#mail,
      arbitration: this.arbiter.arbitration,
      state: () => this.state,
    });
    this.card = new CardKeeper({
      ...ports,
      ...this.#mail,
      tuning: ports.tuning ?? null,
      state: () => this.state.card,
    });
    this.cache = this.#openCache();
    this.ollama = new OllamaKeeper({
      ...ports,
      ...this.#mail,
      storeBlobs: () => this.cache.catalogue.latest()?.blobsByDigest ?? NO_BLOBS,
      server: () => this.state.arbiter.sample?.ollama.server ?? null,
    });
    this.comfy = new ComfyKeeper({
      ...ports,
      ...this.#mail,
      benchmark: this.arbiter.benchmark,
      autotune: this.autotune,
      evidence: this.evidence,
      noteUse: (files) => this.cache.noteUse(files),
    });
    this.sampler = new Sampler({
      ...ports,
      isSimulated: ports.about.simulation !== null,
      ollama: this.ollama.watch,
      comfy: this.comfy.watch,
    });
  }

  get state(): HouseState {
    return this.#machine.state;
  }

  /** A defect in one decision costs that decision: the state is as it was, and the next event finds it so. */
  send(event: HouseEvent): void {
    try {
      this.#machine.send(event);
    } catch (error) {
      this.#ports.log.error(`Defect in a decision on ${event.type}`, { error: stackOf(error) });
    }
  }

  /** No more is heard from the tenants or done of the house's own accord. */
  stopWatching(): void {
    this.ollama.stop();
    this.comfy.stop();
    this.cache.stop();
  }

  /** Resolves when whatever was begun has ended. */
  async settled(): Promise<void> {
    await Promise.all([this.runs.close(), this.arbiter.settled(), this.card.settled(), this.autotune.settled()]);
    await this.#learned.settled();
  }

  /** Whoever acts sends what came of it, and shows what was kept of it. */
  get #mail() {
    return {
      send: (event: HouseEvent) => this.send(event),
      onRecorded: (item: Parameters<LiveService["remember"]>[0]) => this.live.remember(item),
    };
  }

  #perform(effect: HouseEffect): void {
    if (isGateEffect(effect)) return this.arbiter.admission.perform(effect);
    if (isTuneEffect(effect)) return this.card.perform(effect);
    if (isSweepEffect(effect)) return this.autotune.perform(effect);
    this.arbiter.perform(effect);
  }

  #record(transition: Transition<HouseState, HouseEvent, HouseEffect>): void {
    this.#decisions.noteAll(transition, this.#ports.clock.wallMs());
    const { event, effects, before, state } = transition;
    this.#learned.note(before.arbiter, state.arbiter);
    // A reading moves nothing that is shown.
    if (event.type === "reading" && effects.length === 0) return;
    this.arbiter.admission.report();
    // What is let through at once, thousands of times a minute, shows with the next second.
    if (isGateEvent(event) && before.gate.waiting === state.gate.waiting) return;
    this.arbiter.arbitration.report();
    this.autotune.report();
    if (event.type !== "sampled") this.live.touch();
  }

  #openRuns({ runs }: Past): RunKeeper {
    const { clock, log } = this.#ports;
    return createRuns({
      clock,
      past: runs,
      onList: () => this.live.touch(),
      onDefect: (error, run) =>
        log.error(`Defect in a run of ${run.operation}`, { error: messageOf(error), run: run.id }),
    });
  }

  #openLive({ items }: Past): LiveService {
    const { log, about } = this.#ports;
    const live = new LiveService({
      log,
      arbitration: () => this.arbiter.arbitration.view(),
      runs: () => this.runs.list(),
      simulation: about.simulation,
      comfy: () => this.comfy.watch.state(),
      cache: () => this.cache.service.totals(),
      tuning: () => ({ card: this.card.service.tuning(), governor: this.card.service.governor() }),
    });
    live.restore(items);
    return live;
  }

  #openArbiter(): ArbiterKeeper {
    const { send, onRecorded } = this.#mail;
    return new ArbiterKeeper({
      ...this.#ports,
      send,
      state: () => this.state,
      decisions: () => this.#decisions.all(),
      residencyBefore: (model) => this.cache.service.residencyBefore(model),
      listRunners: () => this.sampler.runners(),
      onRecorded: (item) => {
        onRecorded(item);
        this.evidence.recorded(item);
      },
      onBenched: onRecorded,
    });
  }

  #openCache(): CacheKeeper {
    const ports = this.#ports;
    const { send, onRecorded } = this.#mail;
    return new CacheKeeper({
      ...ports,
      ...ports.cache ?? NO_CACHE,
      isOllamaRemote: ports.ollama.isRemote,
      runs: this.runs,
      sample: () => this.state.arbiter.sample,
      load: (model, call) => {
        const { keepAlive } = this.state.arbiter.policy.load;
        const request = { model, keepAlive, prompt: null, operation: "warm-model" };
        return this.arbiter.arbitration.switchModel(request, call);
      },
      onRecorded: (item) => {
        onRecorded(item);
        if (item.kind === "warm") send({ type: "warmed", atMs: ports.clock.monotonicMs(), fields: item.fields });
      },
    });
  }
}

function stackOf(error: unknown): string {
  return error instanceof Error ? error.stack ?? error.message : String(error);
}
