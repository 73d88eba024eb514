/** The page cache's part of the house: the catalogue is watched, figures are kept fresh, and warming begins by itself. */
import {
  endSchedule,
  INITIAL_SCHEDULE,
  isTenantBusy,
  type ScheduleMove,
  type ScheduleState,
  stepSchedule,
} from "../decide/warm_schedule.ts";
import type { ArbitrationView } from "../model/arbitration.ts";
import type { CachePolicy, WarmResult } from "../model/cache.ts";
import type { Files } from "../model/catalogue.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem, NewHistoryItem } from "../model/history.ts";
import type { PageCache } from "../model/page_cache.ts";
import type { Clock, Log, Proc, Store } from "../model/ports.ts";
import type { Sample } from "../model/sample.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { CallOptions, HealthCheck, Runs } from "../model/services.ts";
import { type CatalogueSettings, type CatalogueWatch, watchCatalogue } from "../sample/catalogue.ts";
import { type Poller, startPoller } from "../sample/poller.ts";
import type { ComfyClient } from "../upstream/comfy.ts";
import { UpstreamError } from "../upstream/upstream_error.ts";
import { CacheService } from "./cache.ts";
import { checkCache } from "./cache_health.ts";
import { BACKGROUND_COUNTED_MS, BACKGROUND_SAMPLED_MS } from "./residency_book.ts";
import { warmFields } from "./warm_work.ts";

/** What the house is given for it. */
export interface CachePorts {
  readonly pageCache: PageCache;
  readonly files: Files;
  readonly settings: CatalogueSettings;
  readonly policy: CachePolicy;
}

export interface CacheKeeperParts extends CachePorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly proc: Proc;
  readonly store: Store;
  readonly comfy: Pick<ComfyClient, "isRemote" | "modelFolders">;
  readonly isOllamaRemote: boolean;
  readonly runs: Runs;
  /** The newest one; null before the first. */
  readonly sample: () => Sample | null;
  readonly load: (model: string, call: CallOptions) => Promise<unknown>;
  /** Called with each event once it is kept. */
  readonly onRecorded: (item: HistoryItem) => void;
}

const FIRST_LOOK_MS = 1_000;
const LOOK_MS = 10_000;
/** Uses within this time are one: the ranking counts days. */
const USE_MS = 600_000;
const BACKGROUND = { countedMs: BACKGROUND_COUNTED_MS, sampledMs: BACKGROUND_SAMPLED_MS };
/** The name of the operation whose run an automatic warm is. */
const WARM_ALL = "warm-all";

export class CacheKeeper {
  readonly service: CacheService;
  readonly catalogue: CatalogueWatch;
  readonly #parts: CacheKeeperParts;
  readonly #poller: Poller;
  #schedule: ScheduleState = INITIAL_SCHEDULE;
  #runId: string | null = null;
  readonly #used = new Set<string>();
  #usedAtMs: MonotonicMs | null = null;
  #firstTickMs: MonotonicMs | null = null;

  constructor(parts: CacheKeeperParts) {
    this.#parts = parts;
    this.catalogue = watchCatalogue({
      ...parts,
      hints: () => this.#hints(),
      askFolders: (signal) => this.#askFolders(signal),
    });
    this.service = new CacheService({
      ...parts,
      catalogue: () => this.catalogue.latest(),
      memory: () => parts.sample()?.memory ?? null,
      record: (item) => this.#record(item),
    });
    this.#poller = startPoller({
      clock: parts.clock,
      work: (signal) => this.service.measure(BACKGROUND, signal),
      periodMs: () => this.#isReady ? LOOK_MS : FIRST_LOOK_MS,
    });
  }

  /** One second: the servers' places are known from the first on. */
  tick(sample: Sample, { mode, lane }: ArbitrationView): void {
    const { clock, policy, runs } = this.#parts;
    if (this.#firstTickMs === null) {
      this.#firstTickMs = clock.monotonicMs();
      this.catalogue.refresh();
    }
    const { state, move } = stepSchedule(this.#schedule, {
      atMs: clock.monotonicMs(),
      mode,
      isReady: this.#isReady,
      isBusy: lane !== null || isTenantBusy(sample),
      isWarming: runs.list().some(({ operation, state }) => operation.startsWith("warm-") && state === "running"),
    }, policy);
    this.#schedule = state;
    if (move !== null) this.#carryOut(move);
  }

  checks(): readonly HealthCheck[] {
    const { catalogue, service } = this;
    return checkCache(catalogue.latest(), { crash: catalogue.crash, residency: service.book.all });
  }

  /** A prompt has ended that used these files. One event tells of ten minutes, the first one at once. */
  noteUse(files: readonly string[]): void {
    for (const file of files) this.#used.add(file);
    const nowMs = this.#parts.clock.monotonicMs();
    if (this.#used.size === 0 || nowMs - (this.#usedAtMs ?? -Infinity) < USE_MS) return;
    this.#usedAtMs = nowMs;
    this.#recordUse();
  }

  #recordUse(): void {
    if (this.#used.size === 0) return;
    const checkpoints = [...this.#used].slice(0, 50);
    this.#used.clear();
    this.#record({ kind: "use", fields: { checkpoints, message: `ComfyUI used ${checkpoints.join(", ")}` } });
  }

  stop(): void {
    this.#recordUse();
    this.catalogue.stop();
    this.#poller.stop();
  }

  /** Every file that the servers' own places hold was found and measured; an empty catalogue may fill yet. */
  get #isReady(): boolean {
    const [catalogue, totals] = [this.catalogue.latest(), this.service.totals()];
    if (catalogue === null || totals === null || this.#firstTickMs === null) return false;
    const isWhole = catalogue.readAtMs > this.#firstTickMs && totals.measured + totals.unmeasurable === totals.files;
    return isWhole && totals.files > 0;
  }

  #carryOut(move: ScheduleMove): void {
    const { runs, log, clock } = this.#parts;
    if (move.kind === "stop") {
      const id = this.#runId;
      this.#runId = null;
      if (id === null) return;
      log.info("An automatic warm makes room", { reason: move.reason });
      runs.cancel(id).catch((error: unknown) => log.warn("Cannot stop a warm", { error: messageOf(error) }));
      return;
    }
    const ended = () => {
      this.#runId = null;
      this.#schedule = endSchedule(this.#schedule, clock.monotonicMs());
    };
    this.#warmIfNeeded(move.reason).then(ended, (error) => {
      log.warn("Cannot warm by itself", { error: messageOf(error) });
      ended();
    });
  }

  /** A run that has nothing to read would only fill the list. */
  async #warmIfNeeded(reason: string): Promise<void> {
    const { runs, log, clock } = this.#parts;
    const plan = await this.service.plan({ budgetBytes: null, force: false }, clock.deadline(60_000));
    if (plan.steps.length === 0) return;
    log.info("Warming by itself", { reason, files: plan.steps.length });
    const work = async (call: CallOptions): Promise<unknown> => {
      const request = { budgetBytes: null, force: false, operation: WARM_ALL };
      const result: WarmResult = await this.service.warmAll(request, call);
      return { ...warmFields(WARM_ALL, result, "done"), reason };
    };
    const { id } = runs.start(WARM_ALL, work);
    this.#runId = id;
    await runs.ended(id);
  }

  #hints() {
    const { comfy, isOllamaRemote, sample } = this.#parts;
    const now = sample();
    return {
      ollamaServer: isOllamaRemote ? null : now?.ollama.server ?? null,
      runners: isOllamaRemote ? [] : now?.ollama.runners ?? [],
      comfyServer: comfy.isRemote ? null : now?.comfy.server ?? null,
      isComfyOnline: now?.comfy.online ?? false,
    };
  }

  async #askFolders(signal: AbortSignal) {
    try {
      return await this.#parts.comfy.modelFolders(signal);
    } catch (error) {
      // It is busy or gone: its command line tells where its folders are, too.
      if (error instanceof UpstreamError) return [];
      throw error;
    }
  }

  #record(item: Omit<NewHistoryItem, "atMs">): void {
    const { store, clock, log, onRecorded } = this.#parts;
    store.append({ atMs: clock.wallMs(), ...item }).then(onRecorded, (error: unknown) => {
      log.error("Cannot record a warm", { error: messageOf(error) });
    });
  }
}
