/** Long work by id: started once, followed by any number of doors, ended by itself, by `cancel` or by shutdown. */
import { Failure, messageOf } from "../model/failure.ts";
import type { Clock, Timer } from "../model/ports.ts";
import type { CallOptions, Progress, Runs, RunView } from "../model/services.ts";
import type { MonotonicMs } from "../model/units.ts";

/** How long an ended run can still be asked for, and how many of them at most. */
const KEPT_MS = 3_600_000;
const KEPT_COUNT = 100;

/** More work at once than any person starts; a client in a loop is stopped here. */
const RUNNING_COUNT = 32;

/** What is kept of a run beside its view. */
interface Entry {
  view: RunView;
  readonly abort: AbortController;
  readonly ended: Promise<void>;
  readonly followers: Set<(run: RunView) => void>;
  /** When it ended, and as which of all; null while it runs. */
  end: { readonly atMs: MonotonicMs; readonly order: number } | null;
}

export interface RunKeeper extends Runs {
  /** Cancels all that runs and resolves when everything has ended. */
  close(): Promise<void>;
}

export interface RunKeeperOptions {
  readonly clock: Clock;
  /** Called with what a run's work threw that was no Failure, and with what a follower threw. */
  readonly onDefect: (error: unknown, run: RunView) => void;
  /** Called when a run has begun or ended; how far one is can wait for whoever looks. */
  readonly onList?: () => void;
  /** Runs that an earlier service left, ended as far as can be told. */
  readonly past?: readonly RunView[];
}

/** Keeps runs in memory: what they did is in the record, and one that was cut off is told from there. */
export function createRuns(options: RunKeeperOptions): RunKeeper {
  return new RunTable(options);
}

class RunTable implements RunKeeper {
  readonly #entries = new Map<string, Entry>();
  readonly #clock: Clock;
  readonly #onDefect: RunKeeperOptions["onDefect"];
  readonly #onList: () => void;
  #ends = 0;

  constructor({ clock, onDefect, onList = () => {}, past = [] }: RunKeeperOptions) {
    this.#clock = clock;
    this.#onDefect = onDefect;
    this.#onList = onList;
    for (const view of past) {
      const end = { atMs: clock.monotonicMs(), order: this.#ends++ };
      const entry: Entry = { view, abort: new AbortController(), ended: Promise.resolve(), followers: new Set(), end };
      this.#entries.set(view.id, entry);
    }
  }

  start(operation: string, work: (call: CallOptions) => Promise<unknown>): RunView {
    this.#forget();
    if (this.#running().length >= RUNNING_COUNT) {
      throw new Failure("too_many", `Cannot start ${operation}: ${RUNNING_COUNT} runs are under way`, {
        hint: "Wait for one to end, or cancel one: hyperswap runs",
      });
    }
    const abort = new AbortController();
    const ending = Promise.withResolvers<void>();
    const view: RunView = {
      id: this.#clock.uuid(),
      operation,
      state: "running",
      progress: null,
      startedAtMs: this.#clock.wallMs(),
      endedAtMs: null,
      result: null,
      error: null,
      version: 1,
    };
    const entry: Entry = { view, abort, ended: ending.promise, followers: new Set(), end: null };
    this.#entries.set(view.id, entry);
    this.#onList();
    this.#perform(entry, work).then(ending.resolve, (error) => {
      // #perform settles every outcome of the work itself; only a defect in here comes this way.
      this.#onDefect(error, entry.view);
      ending.resolve();
    });
    return view;
  }

  list(): readonly RunView[] {
    this.#forget();
    return [...this.#entries.values()].map(({ view }) => view).reverse();
  }

  get(id: string): RunView {
    return this.#entry(id).view;
  }

  async cancel(id: string): Promise<RunView> {
    const entry = this.#entry(id);
    if (entry.view.state === "running") {
      entry.abort.abort(new Failure("cancelled", `Cancelled ${entry.view.operation} on request`));
      await entry.ended;
    }
    return entry.view;
  }

  follow(id: string, onChange: (run: RunView) => void): Timer {
    const entry = this.#entry(id);
    if (entry.view.state === "running") entry.followers.add(onChange);
    this.#tell(onChange, entry.view);
    return { stop: () => void entry.followers.delete(onChange) };
  }

  async ended(id: string): Promise<RunView> {
    const entry = this.#entry(id);
    await entry.ended;
    return entry.view;
  }

  async close(): Promise<void> {
    const running = this.#running();
    for (const { abort, view } of running) {
      abort.abort(new Failure("cancelled", `Cancelled ${view.operation}: the service is stopping`));
    }
    await Promise.all(running.map(({ ended }) => ended));
  }

  async #perform(entry: Entry, work: (call: CallOptions) => Promise<unknown>): Promise<void> {
    const { signal } = entry.abort;
    const progress = (progress: Progress) => {
      // A late report of work that has ended already would make the run look alive.
      if (entry.view.state === "running") this.#change(entry, { progress });
    };
    try {
      const result = await work({ signal, progress, runId: entry.view.id });
      this.#end(entry, { state: "done", result });
    } catch (error) {
      this.#end(entry, this.#failed(entry, error));
    }
  }

  #failed(entry: Entry, error: unknown): Pick<RunView, "state" | "error"> {
    const { signal } = entry.abort;
    // Whatever work throws once it was told to stop is how it stopped: the request is what people want to read.
    const cause = signal.aborted ? signal.reason : error;
    if (!(cause instanceof Failure)) {
      this.#onDefect(error, entry.view);
      const message = `Internal error in ${entry.view.operation}: ${messageOf(error)}`;
      return { state: "failed", error: { code: "internal", message, hint: null, details: null } };
    }
    const { code, message, hint, details } = cause;
    return { state: code === "cancelled" ? "cancelled" : "failed", error: { code, message, hint, details } };
  }

  #end(entry: Entry, ending: Partial<RunView>): void {
    entry.end = { atMs: this.#clock.monotonicMs(), order: this.#ends++ };
    const progress = lastProgress(entry.view.progress, ending.state);
    this.#change(entry, { ...ending, progress, endedAtMs: this.#clock.wallMs() });
    entry.followers.clear();
    this.#forget();
    this.#onList();
  }

  #change(entry: Entry, change: Partial<RunView>): void {
    entry.view = { ...entry.view, ...change, version: entry.view.version + 1 };
    for (const follower of [...entry.followers]) this.#tell(follower, entry.view);
  }

  /** A follower that throws is its own door's defect and must not end the work. */
  #tell(follower: (run: RunView) => void, view: RunView): void {
    try {
      follower(view);
    } catch (error) {
      this.#onDefect(error, view);
    }
  }

  #entry(id: string): Entry {
    this.#forget();
    const entry = this.#entries.get(id);
    if (entry !== undefined) return entry;
    throw new Failure("not_found", `Cannot find a run with id "${id}"`, {
      hint: "Runs are kept for an hour after they end: hyperswap runs lists them",
    });
  }

  #running(): readonly Entry[] {
    return [...this.#entries.values()].filter(({ view }) => view.state === "running");
  }

  /** Drops what ended too long ago, and the oldest ended runs above the limit. */
  #forget(): void {
    const nowMs = this.#clock.monotonicMs();
    const oldestOrder = this.#ends - KEPT_COUNT;
    for (const { end, view } of this.#entries.values()) {
      if (end !== null && (end.order < oldestOrder || nowMs - end.atMs >= KEPT_MS)) this.#entries.delete(view.id);
    }
  }
}

/** The last report came some time before the end: nothing is left of what is done, and nothing is awaited of the rest. */
function lastProgress(progress: Progress | null, state: RunView["state"] | undefined): Progress | null {
  return progress === null ? null : { ...progress, done: state === "done" ? 1 : progress.done, etaMs: null };
}
