/** Files whose pages are locked in memory: within a budget that only the owner sets, and told for what they cost. */
import {
  type Claim,
  claimedAs,
  claimFiles,
  type Claims,
  dropClaims,
  fateOfPin,
  isSameFile,
  namesOf,
  nameToDrop,
} from "../decide/pin_claims.ts";
import { keepBudget, leaveRoom } from "../decide/pin_limits.ts";
import type { CachePolicy, FileReport, HeldFile, PinResult } from "../model/cache.ts";
import type { Files, ModelFile } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import type { NewHistoryItem } from "../model/history.ts";
import { joinSignals } from "../model/join_signals.ts";
import type { PageCache, PinnedFile, PinOutcome } from "../model/page_cache.ts";
import type { HostMemory } from "../model/sample.ts";
import type { CallOptions } from "../model/services.ts";
import { type Bytes, gbText, round } from "../model/units.ts";
import { pinResult, sumOf, tellPinned, tellUnpinned } from "./pin_words.ts";
import { TurnTaking } from "./turn_taking.ts";

export interface PinBoardParts {
  readonly pageCache: PageCache;
  readonly files: Pick<Files, "find">;
  readonly memory: () => HostMemory | null;
  readonly policy: CachePolicy;
  readonly record: (item: Omit<NewHistoryItem, "atMs">) => void;
}

export interface PinRequest {
  /** Under which the files are claimed: two of the same name are one. */
  readonly name: string;
  readonly files: readonly ModelFile[];
  readonly roots: readonly string[];
  readonly budgetBytes: Bytes | null;
}

/** A pin under way: its claims are there from the moment of asking, so that nobody lets go what it counts on. */
interface Order extends Claim {
  readonly stop: AbortController;
}

export class PinBoard {
  readonly #parts: PinBoardParts;
  readonly #turns = new TurnTaking("pin");
  /** Of what is locked, and of what is to be: whatever is locked and isn't in here is let go. */
  #claims: Claims = new Map();
  /** Each with the paths that it claimed. */
  readonly #orders = new Map<Order, readonly string[]>();
  /** By path, why a lock can't be compared with what lies there now. */
  readonly #unchecked = new Map<string, string>();

  constructor(parts: PinBoardParts) {
    this.#parts = parts;
  }

  /**
   * All of the files or none: half a model in memory helps nobody. A caller's own budget can only lower the owner's:
   * locked memory is taken from every other program.
   */
  async pin(request: PinRequest, call: CallOptions): Promise<PinResult> {
    if (this.#parts.policy.pinBudgetBytes === 0) {
      throw new Failure("forbidden", "Cannot pin: pinning is off", {
        hint: "Set pin.budget_gb in the configuration to what may be locked at most",
      });
    }
    const order = this.#claim(request);
    using either = joinSignals(call.signal, order.stop.signal);
    const stoppable = { ...call, signal: either.signal };
    try {
      const result = await this.#turns.take(stoppable, () => this.#lockAll(order, request, stoppable));
      this.#dropOlder(order);
      this.#orders.delete(order);
      return result;
    } catch (error) {
      this.#orders.delete(order);
      this.#claims = dropClaims(this.#claims, (claim) => claim === order);
      // How letting go fares mustn't hide why.
      await Promise.allSettled([this.#letGo()]);
      throw error;
    }
  }

  /** Ends what was pinned under that name, or is about to be. `files`: what the name stands for today. */
  async unpin({ name, files }: Pick<PinRequest, "name" | "files">): Promise<PinResult> {
    const paths = files.map((file) => this.pathOf(file) ?? file.path);
    return await this.#unpin((claim) => claim.name === name, paths);
  }

  /** Lets a file go for whoever pinned it, unless several did. */
  async unpinFile(path: string): Promise<PinResult> {
    const claimed = this.#claims.get(path);
    const name = claimed === undefined ? null : nameToDrop(claimed);
    return await this.#unpin((claim, file) => file.path === path && claim.name === name, [path]);
  }

  /** The path under which a file is locked, or is about to be; null when it isn't. */
  pathOf(file: ModelFile): string | null {
    return claimedAs(this.#claims, file)?.file.path ?? null;
  }

  holds(path: string): boolean {
    return this.#claims.has(path);
  }

  /** Every name under which something is pinned, or is about to be. */
  get names(): readonly string[] {
    return [...new Set([...this.#claims.values()].flatMap(namesOf))];
  }

  /** Of these files the paths of those that are locked, under whatever name. */
  lockedOf(files: readonly ModelFile[]): ReadonlySet<string> {
    const locked = this.#locked;
    return new Set(files.filter((file) => locked.has(this.pathOf(file) ?? "")).map(({ path }) => path));
  }

  /** Locked files that the catalogue doesn't have (any more): with why nothing is known of one, where that is so. */
  missingFrom(files: readonly ModelFile[]): readonly FileReport[] {
    return this.#held().flatMap(
      ({ path, lockedBytes: sizeBytes, heldFor: names, sinceMs: atMs }): readonly FileReport[] => {
        const own = this.#claims.get(path)?.file;
        if (files.some((file) => file.path === path || (own !== undefined && isSameFile(own, file)))) return [];
        const reason = this.#unchecked.get(path) ?? null;
        const residency = reason === null
          ? null
          : { kind: "unmeasurable", sizeBytes, cause: "failed", reason, atMs } as const;
        return [{ path, source: "ollama", names, sizeBytes, residency, ageMs: null, isPinned: true }];
      },
    );
  }

  /**
   * Lets go of files that were deleted or replaced: nobody opens them any more, and only their lock keeps them in memory.
   * `files`: those of the catalogue. One that only left it stays, since the store of a server that is away comes back, and
   * so does one whose disk doesn't answer.
   */
  async releaseGone(files: readonly ModelFile[]): Promise<void> {
    const { pageCache, files: disk } = this.#parts;
    const pinned = pageCache.pinned();
    for (const path of this.#unchecked.keys()) if (!this.#locked.has(path)) this.#unchecked.delete(path);
    if (pinned.length === 0) return;
    const ids = new Map(files.map(({ path, id }) => [path, id]));
    for (const { path, lockedBytes } of pinned) {
      const id = this.#claims.get(path)?.file.id;
      if (id === undefined) continue;
      const fate = ids.get(path) === id ? { kind: "kept" } as const : fateOfPin(await disk.find(path), id);
      // It may have been let go, and even locked anew, while the disk was asked.
      if (this.#claims.get(path)?.file.id !== id || !this.#locked.has(path)) continue;
      if (fate.kind === "unchecked") {
        this.#noteUnchecked({ path, lockedBytes }, fate.why);
        continue;
      }
      this.#unchecked.delete(path);
      if (fate.kind === "kept") continue;
      this.#claims = dropClaims(this.#claims, (_, file) => file.path === path);
      this.#stopOrders(`${path}: ${fate.why}`);
      await this.#letGo();
      const message = `Unlocked ${gbText(lockedBytes)} GB of ${path}: ${fate.why}`;
      this.#record(path, { released_gb: round(lockedBytes / 1e9, 3), message });
    }
  }

  #claim({ name, files }: PinRequest): Order {
    for (const file of files) {
      const problem = this.#unchecked.get(this.pathOf(file) ?? file.path);
      if (problem === undefined) continue;
      const message = `Cannot pin ${name}: whether ${file.path} is what is locked can't be told: ${problem}`;
      throw new Failure("unavailable", message, { hint: "Look at the disk or the share it lies on, or unpin it" });
    }
    const order: Order = { name, stop: new AbortController() };
    this.#claims = claimFiles(this.#claims, files, order);
    this.#orders.set(order, [...this.#claims.keys()].filter((path) => this.#isClaimedBy(order, path)));
    return order;
  }

  /** In its turn: whatever was asked for before has ended, so that what is locked now stays, or isn't there. */
  async #lockAll(order: Order, { roots, budgetBytes }: PinRequest, call: CallOptions): Promise<PinResult> {
    const { pageCache, policy } = this.#parts;
    call.signal.throwIfAborted();
    const budget = Math.min(policy.pinBudgetBytes, budgetBytes ?? policy.pinBudgetBytes);
    const locked = this.#locked;
    const missing = (this.#orders.get(order) ?? []).filter((path) => !locked.has(path));
    const due = missing.flatMap((path) => this.#claims.get(path)?.file ?? []);
    keepBudget(due, { lockedBytes: sumOf(pageCache.pinned()), budgetBytes: budget });
    leaveRoom(due, { availableBytes: this.#available, reserveBytes: policy.reserveBytes });
    const before = this.#available;
    const changed: PinOutcome[] = [];
    for (const file of due) {
      changed.push(await this.#lock(file, { roots, budgetBytes: budget }, call));
      // It may have been called off just when it had come about.
      call.signal.throwIfAborted();
    }
    const after = changed.at(-1)?.availableAfterBytes ?? null;
    return pinResult(changed, { pinned: this.#held(), budget, before, after, what: tellPinned(changed) });
  }

  async #lock(
    file: ModelFile,
    how: { readonly roots: readonly string[]; readonly budgetBytes: Bytes },
    { signal, progress }: CallOptions,
  ): Promise<PinOutcome> {
    const { pageCache, files: disk } = this.#parts;
    const { path, sizeBytes } = file;
    // The catalogue may be a few seconds behind.
    const presence = await disk.find(path);
    signal.throwIfAborted();
    const claimed = this.#claims.get(path);
    if (presence.kind === "there" && claimed !== undefined) {
      const { kind: _kind, ...facts } = presence.facts;
      this.#claims = new Map(this.#claims).set(path, { ...claimed, file: { path, ...facts } });
    }
    const onProgress = ({ doneBytes }: { readonly doneBytes: Bytes }) =>
      progress({ phase: `locking ${path}`, done: sizeBytes === 0 ? null : doneBytes / sizeBytes, etaMs: null });
    return await pageCache.pin(path, { ...how, signal, onProgress });
  }

  async #unpin(isDropped: (claim: Claim, file: ModelFile) => boolean, paths: readonly string[]): Promise<PinResult> {
    const before = this.#available;
    this.#claims = dropClaims(this.#claims, isDropped);
    const isCalledOff = this.#stopOrders("it was unpinned meanwhile");
    const changed = await this.#letGo();
    const kept = this.#held().filter(({ path }) => paths.includes(path));
    const budget = this.#parts.policy.pinBudgetBytes;
    return pinResult(changed, {
      pinned: this.#held(),
      budget,
      before,
      after: null,
      what: tellUnpinned(changed, { kept, isCalledOff }),
    });
  }

  /** Those that lost a claim: they can't come to what was asked for any more. */
  #stopOrders(why: string): boolean {
    let hasStopped = false;
    for (const [order, paths] of this.#orders) {
      if (order.stop.signal.aborted || paths.every((path) => this.#isClaimedBy(order, path))) continue;
      order.stop.abort(new Failure("cancelled", `Cannot pin ${order.name}: ${why}`));
      hasStopped = true;
    }
    return hasStopped;
  }

  /** Unlocks what nobody claims any more. */
  async #letGo(): Promise<readonly PinnedFile[]> {
    const { pageCache } = this.#parts;
    const free = pageCache.pinned().filter(({ path }) => !this.#claims.has(path));
    const ended = await Promise.allSettled(free.map(({ path }) => pageCache.unpin(path)));
    for (const one of ended) if (one.status === "rejected") throw one.reason;
    return free.filter((_, index) => ended[index]?.status === "fulfilled");
  }

  /** Told once for each reason, not with every look. */
  #noteUnchecked({ path, lockedBytes }: Pick<PinnedFile, "path" | "lockedBytes">, why: string): void {
    if (this.#unchecked.get(path) === why) return;
    this.#unchecked.set(path, why);
    const message = `${gbText(lockedBytes)} GB of ${path} stay locked: whether it is still there can't be told: ${why}`;
    this.#record(path, { message });
  }

  #record(path: string, fields: NewHistoryItem["fields"]): void {
    this.#parts.record({ kind: "pin", fields: { path, ...fields } });
  }

  /** Pinned again, a model is pinned once all the same. */
  #dropOlder(order: Order): void {
    const isOlder = (claim: Claim) => ![...this.#orders.keys()].some((underWay) => underWay === claim);
    this.#claims = dropClaims(
      this.#claims,
      (claim, { path }) => claim.name === order.name && isOlder(claim) && this.#isClaimedBy(order, path),
    );
  }

  #isClaimedBy(claim: Claim, path: string): boolean {
    return this.#claims.get(path)?.claims.includes(claim) === true;
  }

  get #locked(): ReadonlySet<string> {
    return new Set(this.#parts.pageCache.pinned().map(({ path }) => path));
  }

  get #available(): Bytes | null {
    return this.#parts.memory()?.availableBytes ?? null;
  }

  #held(): readonly HeldFile[] {
    return this.#parts.pageCache.pinned().map((file) => {
      const claimed = this.#claims.get(file.path);
      return { ...file, heldFor: claimed === undefined ? [] : namesOf(claimed) };
    });
  }
}
