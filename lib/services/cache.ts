/** The page cache as operations ask for it: catalogue, residency, plan, warming and pinning, joined. */
import { readUses, useKey, type Uses } from "../decide/model_uses.ts";
import { defaultBudget, labelOf, planWarm } from "../decide/warm_plan.ts";
import { isConfidentlyResident } from "../decide/warm_skip.ts";
import type {
  CachePolicy,
  CacheReport,
  CacheTotals,
  FileReport,
  LoadResidency,
  PlanStep,
  WarmPlan,
  WarmResult,
} from "../model/cache.ts";
import type { Catalogue, Files } from "../model/catalogue.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type { NewHistoryItem } from "../model/history.ts";
import type { PageCache, Residency } from "../model/page_cache.ts";
import type { Clock, Log, Store } from "../model/ports.ts";
import type { HostMemory } from "../model/sample.ts";
import type { Cache, CallOptions } from "../model/services.ts";
import type { Bytes, MonotonicMs } from "../model/units.ts";
import { chooseFiles } from "./file_choice.ts";
import { namesByPath } from "./model_names.ts";
import { PinBoard } from "./pin_board.ts";
import { choosePins, unpinChosen } from "./pin_choice.ts";
import { COUNTED_MAX_AGE_MS, type MaxAges, ResidencyBook, residencyOf, SAMPLED_MAX_AGE_MS } from "./residency_book.ts";
import { TurnTaking } from "./turn_taking.ts";
import { warmFiles, type WarmOrder, type WarmTask } from "./warm_work.ts";

export interface CacheParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly pageCache: PageCache;
  readonly files: Files;
  readonly store: Pick<Store, "history">;
  readonly catalogue: () => Catalogue | null;
  /** Null when it can't be read. */
  readonly memory: () => HostMemory | null;
  readonly policy: CachePolicy;
  /** Loads a model the way a switch does. */
  readonly load: (model: string, call: CallOptions) => Promise<unknown>;
  readonly record: (item: Omit<NewHistoryItem, "atMs">) => void;
}

const FRESH: MaxAges = { countedMs: COUNTED_MAX_AGE_MS, sampledMs: SAMPLED_MAX_AGE_MS };
/** For a plan every file needs a count, or to have been sampled once; skipping is decided by a probe. */
const PLANNING: MaxAges = { countedMs: COUNTED_MAX_AGE_MS, sampledMs: Infinity };
/** A server needs a quarter of a second to start a runner: what is measured later was measured during the load. */
const BEFORE_LOAD_MS = 200;
const FIRST_LOOK_MS = 3_000;
/** Events that the ranking looks at. */
const EVENTS = 1_000;
const USES_MAX_AGE_MS = 10_000;

export class CacheService implements Cache {
  readonly #parts: CacheParts;
  readonly #turns = new TurnTaking("warm");
  readonly #pins: PinBoard;
  readonly book: ResidencyBook;
  #uses: { readonly uses: Uses; readonly atMs: MonotonicMs } | null = null;

  constructor(parts: CacheParts) {
    this.#parts = parts;
    this.book = new ResidencyBook(parts);
    this.#pins = new PinBoard(parts);
  }

  catalogue(): Catalogue {
    const catalogue = this.#parts.catalogue();
    if (catalogue !== null) return catalogue;
    throw new Failure("unavailable", "The model folders haven't been read yet", { hint: "Try again in a few seconds" });
  }

  totals(): CacheTotals | null {
    const catalogue = this.#parts.catalogue();
    return catalogue === null ? null : this.book.totals(catalogue.files, this.#pinnedBytes);
  }

  /** Brings the figures up to date as far as they are older than that. */
  async measure(ages: MaxAges, signal: AbortSignal): Promise<void> {
    const catalogue = this.#parts.catalogue();
    if (catalogue === null) return;
    this.book.keepOnly(catalogue.files);
    await this.#pins.releaseGone(catalogue.files);
    await this.book.refresh(catalogue, { ages, signal });
  }

  async report(signal: AbortSignal): Promise<CacheReport> {
    const catalogue = await this.#awaitCatalogue(signal);
    await this.measure(FRESH, signal);
    const names = namesByPath(catalogue.entries);
    const pinned = this.#pins.lockedOf(catalogue.files);
    const known = catalogue.files.map(({ path, sizeBytes }): FileReport => ({
      path,
      source: names.get(path)?.source ?? "ollama",
      names: names.get(path)?.labels ?? [],
      sizeBytes,
      residency: this.book.get(path),
      ageMs: this.book.ageMs(path),
      isPinned: pinned.has(path),
    }));
    const files = [...known, ...this.#pins.missingFrom(catalogue.files)];
    const totals = this.totals();
    if (totals === null) throw new Failure("unavailable", "Nothing has been measured yet", { hint: "Try again" });
    return {
      totals,
      files: files.toSorted((a, b) => b.sizeBytes - a.sizeBytes || (a.path < b.path ? -1 : 1)),
      warming: this.#parts.pageCache.queue(),
      places: catalogue.places,
      problems: catalogue.problems,
    };
  }

  async plan({ budgetBytes, force }: Parameters<Cache["plan"]>[0], signal: AbortSignal): Promise<WarmPlan> {
    const { clock } = this.#parts;
    const catalogue = await this.#awaitCatalogue(signal);
    const startedMs = clock.monotonicMs();
    await this.measure(PLANNING, signal);
    const residency = await this.#probed(catalogue, signal);
    const plan = planWarm({
      catalogue,
      uses: await this.#readUses(),
      residency,
      pinned: this.#pins.lockedOf(catalogue.files),
      budget: this.#budget(budgetBytes),
      force,
      nowMs: clock.wallMs(),
    });
    const looked = [...residency.values()].filter(({ atMs }) => atMs >= startedMs);
    const sum = (of: "readBytes" | "droppedBytes") =>
      looked.reduce((bytes, figure) => bytes + (figure.kind === "measured" ? figure.disturbance[of] : 0), 0);
    return { ...plan, probed: { readBytes: sum("readBytes"), droppedBytes: sum("droppedBytes") } };
  }

  async warmAll(request: Parameters<Cache["warmAll"]>[0], call: CallOptions): Promise<WarmResult> {
    return await this.#turns.take(call, async () => {
      call.progress({ phase: "planning", done: null, etaMs: null });
      const plan = await this.plan(request, call.signal);
      return await this.#warm({
        operation: request.operation,
        tasks: plan.steps.map(taskOf),
        skipped: plan.skipped,
        roots: this.catalogue().roots,
      }, call);
    });
  }

  async warmModel(request: Parameters<Cache["warmModel"]>[0], call: CallOptions): Promise<WarmResult> {
    const catalogue = await this.#awaitCatalogue(call.signal);
    const { files, entry } = await chooseFiles(request, { catalogue, files: this.#parts.files });
    const isOllama = entry?.source === "ollama";
    if (!request.isWeightsOnly && (entry === null || !isOllama)) {
      throw new Failure("invalid_input", "Only a model of Ollama's can be loaded too", {
        hint: "Leave blob_only at true, or give its model_name",
      });
    }
    const names = namesByPath(catalogue.entries);
    const known = await this.#parts.pageCache.probe(files.map(({ path }) => path), {
      roots: catalogue.roots,
      signal: call.signal,
    });
    const tasks = files.map(({ path, sizeBytes }, index): WarmTask => {
      const residency = known[index];
      const isSkipped = !request.force && residency !== undefined && isConfidentlyResident(residency);
      const labels = entry === null ? names.get(path)?.labels ?? [] : [labelOf(entry)];
      const skip = isSkipped ? { reason: "it is in memory already", residency } : null;
      return { path, names: labels, sizeBytes, skip };
    });
    const result = await this.#warm({ operation: request.operation, tasks, skipped: [], roots: catalogue.roots }, call);
    if (!request.isWeightsOnly && entry !== null) {
      call.progress({ phase: `loading ${entry.name}`, done: null, etaMs: null });
      await this.#parts.load(entry.name, call);
    }
    return result;
  }

  async pin(request: Parameters<Cache["pin"]>[0], call: CallOptions): ReturnType<Cache["pin"]> {
    const catalogue = await this.#awaitCatalogue(call.signal);
    const choice = await choosePins(request, { catalogue, files: this.#parts.files });
    await this.#pins.releaseGone(catalogue.files);
    return await this.#pins.pin({ ...choice, roots: catalogue.roots, budgetBytes: request.budgetBytes }, call);
  }

  async unpin(request: Parameters<Cache["unpin"]>[0]): ReturnType<Cache["unpin"]> {
    return await unpinChosen(request, { catalogue: this.catalogue(), files: this.#parts.files }, this.#pins);
  }

  /** How much of a model is in memory, in the moment before its load; null when that can't be told in time. */
  async residencyBefore(model: string): Promise<LoadResidency | null> {
    const catalogue = this.#parts.catalogue();
    const entry = catalogue?.entries.find(({ source, name, isShadowed }) =>
      source === "ollama" && !isShadowed && useKey("ollama", name) === useKey("ollama", model)
    );
    if (catalogue == null || entry === undefined || entry.files.length === 0) return null;
    const own = catalogue.files.filter(({ path }) => entry.files.includes(path)).map(({ path }) => path);
    const due = own.filter((path) => (this.book.ageMs(path) ?? Infinity) > COUNTED_MAX_AGE_MS);
    const deadline = this.#parts.clock.deadline(BEFORE_LOAD_MS);
    try {
      const figures = await this.#parts.pageCache.measure(due, { roots: catalogue.roots, signal: deadline });
      if (deadline.aborted) return null;
      for (const [index, figure] of figures.entries()) this.book.note(due[index] ?? "", figure);
      return residencyOf(own.map((path) => this.book.get(path)));
    } catch (error) {
      this.#parts.log.debug("Cannot measure a model before its load", { model, error: messageOf(error) });
      return null;
    }
  }

  /** The first look takes a moment, and a command without a service asks at once. */
  async #awaitCatalogue(signal: AbortSignal): Promise<Catalogue> {
    const { clock } = this.#parts;
    const endMs = clock.monotonicMs() + FIRST_LOOK_MS;
    while (this.#parts.catalogue() === null && clock.monotonicMs() < endMs) await clock.sleep(50, signal);
    return this.catalogue();
  }

  get #pinnedBytes(): Bytes {
    return this.#parts.pageCache.pinned().reduce((sum, { lockedBytes }) => sum + lockedBytes, 0);
  }

  #budget(asked: Bytes | null): { readonly bytes: Bytes; readonly basis: string } {
    const { policy } = this.#parts;
    if (asked !== null) return { bytes: asked, basis: "as asked for" };
    if (policy.budgetBytes !== null) return { bytes: policy.budgetBytes, basis: "warm.budget_gb of the configuration" };
    const memory = this.#parts.memory();
    if (memory !== null) return defaultBudget(memory, this.#pinnedBytes);
    throw new Failure("unavailable", "Cannot choose a budget: host memory is unknown", {
      hint: "Give budget_gb, or set warm.budget_gb",
    });
  }

  /** For files that can't be counted: a small probe says whether all of it is there; else the last sample counts. */
  async #probed(catalogue: Catalogue, signal: AbortSignal): Promise<ReadonlyMap<string, Residency>> {
    const residency = new Map(this.book.all);
    const sampled = catalogue.files.map(({ path }) => path).filter((path) => {
      const figure = residency.get(path);
      return figure?.kind === "measured" && !figure.isExact && (this.book.ageMs(path) ?? 0) > COUNTED_MAX_AGE_MS;
    });
    if (sampled.length === 0) return residency;
    const probes = await this.#parts.pageCache.probe(sampled, { roots: catalogue.roots, signal });
    for (const [index, probe] of probes.entries()) {
      const path = sampled[index] ?? "";
      const last = residency.get(path);
      const isStillThere = isConfidentlyResident(probe);
      // An old sample that found all of it must not skip what a probe has just found missing.
      if (isStillThere || last === undefined || isConfidentlyResident(last)) residency.set(path, probe);
    }
    return residency;
  }

  async #readUses(): Promise<Uses> {
    const { clock, store, log } = this.#parts;
    const nowMs = clock.monotonicMs();
    if (this.#uses !== null && nowMs - this.#uses.atMs < USES_MAX_AGE_MS) return this.#uses.uses;
    const read = (kind: NewHistoryItem["kind"]) => store.history({ limit: EVENTS, kind, before: null, durable: true });
    const items = await Promise.all([read("swap"), read("yield"), read("use")]).catch((error: unknown) => {
      log.warn("Cannot read which models were used", { error: messageOf(error) });
      return [];
    });
    const uses = readUses(items.flat(), clock.wallMs());
    this.#uses = { uses, atMs: nowMs };
    return uses;
  }

  #warm(order: WarmOrder, call: CallOptions): Promise<WarmResult> {
    return warmFiles(order, call, { ...this.#parts, book: this.book });
  }
}

function taskOf({ path, names, sizeBytes }: PlanStep): WarmTask {
  return { path, names, sizeBytes, skip: null };
}
