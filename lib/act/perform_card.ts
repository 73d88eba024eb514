/** The card's effects → its writer and the record → result events. One thing after the other: order is what keeps it safe. */
import type { CardControl, LeverReport } from "../model/card.ts";
import { messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import type { Clock, Log, Proc, Store, Timer } from "../model/ports.ts";
import type { TuneEffect, TuneEvent, TuneReply, TuningStore } from "../model/tuning.ts";

/** Programs known to set cards, by the name /proc gives (cut to 15 letters). */
const TUNERS: ReadonlySet<string> = new Set([
  "lactd",
  "coolercontrold",
  "corectrl",
  "corectrl_helper",
  "gwe",
  "nvfancontrol",
  "nvidia-fan-cont",
  "nvidia-settings",
  "nvidia-smi",
  "nvidia_oc",
  "tuxclocker",
  "tuxclockerd",
]);

/** An event without its time: `perform` stamps it. */
type Unstamped = TuneEvent extends infer E ? E extends TuneEvent ? Omit<E, "atMs"> : never : never;

export interface PerformCardParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly control: CardControl;
  readonly proc: Proc;
  readonly store: Store;
  readonly book: TuningStore;
  readonly send: (event: TuneEvent) => void;
  readonly resolve: (requestId: string, reply: TuneReply) => void;
  readonly onRecorded: (item: HistoryItem) => void;
}

export class CardPerformer {
  readonly #parts: PerformCardParts;
  readonly #news: Timer;
  /** What was asked of the card, one after the other. */
  #line: Promise<void> = Promise.resolve();
  /** What is being kept, one after the other; the value says why the last book couldn't be. */
  #keeping: Promise<string | null> = Promise.resolve(null);
  /** Writes of an older generation that haven't begun are dropped: a restore doesn't wait for them. */
  #newest = 0;

  constructor(parts: PerformCardParts) {
    this.#parts = parts;
    this.#news = parts.control.watchEvents((news) => this.#send({ type: "cardNews", news }));
  }

  /** Starts an effect. Its result comes back through `send`. */
  perform(effect: TuneEffect): void {
    switch (effect.kind) {
      case "openCard":
        return this.#inLine(() => this.#open());
      case "readCard":
        return this.#inLine(() => this.#read());
      case "applyCard":
        this.#newest = effect.generation;
        return this.#inLine(() => this.#apply(effect));
      case "restoreCard":
        this.#newest = effect.generation;
        return this.#inLine(() => this.#restore(effect));
      case "keepBook":
        return this.#keep(effect);
      case "recordTuning":
        return this.#record(effect);
      case "answerTuning":
        return this.#answer(effect);
    }
  }

  /** Resolves when everything that was started has ended. */
  async settled(): Promise<void> {
    this.#news.stop();
    await this.#line;
    await this.#keeping;
  }

  #send(event: Unstamped): void {
    // The omitted time is put back here, so the union's member is whole again.
    this.#parts.send({ ...event, atMs: this.#parts.clock.monotonicMs() } as TuneEvent);
  }

  #inLine(run: () => Promise<void>): void {
    this.#line = this.#line.then(run).catch((error) =>
      this.#parts.log.error("Cannot finish what was asked of the card", { error: messageOf(error) })
    );
  }

  /** What an earlier life left is undone before anything else. */
  async #open(): Promise<void> {
    const { control } = this.#parts;
    try {
      const { uncleanEnd } = await control.restore("journal");
      const limits = await control.limits();
      const state = await control.state();
      this.#send({ type: "cardOpened", limits, state, uncleanEnd });
    } catch (error) {
      this.#send({ type: "cardClosed", reason: messageOf(error) });
    }
  }

  async #read(): Promise<void> {
    const { control, log } = this.#parts;
    try {
      const state = await control.state();
      this.#send({ type: "cardRead", state, suspects: this.#suspects() });
    } catch (error) {
      log.debug("Cannot read back what is set", { error: messageOf(error) });
    }
  }

  #suspects(): readonly string[] {
    try {
      return this.#parts.proc.list().filter(({ name }) => TUNERS.has(name)).map(({ name, pid }) =>
        `${name} (pid ${pid})`
      );
    } catch (error) {
      this.#parts.log.debug("Cannot look for other tools", { error: messageOf(error) });
      return [];
    }
  }

  async #apply({ generation, writes }: Extract<TuneEffect, { kind: "applyCard" }>): Promise<void> {
    const reports: LeverReport[] = [];
    try {
      for (const { setting, reason } of writes) {
        if (generation !== this.#newest) return;
        reports.push(...await this.#parts.control.apply(setting, reason));
      }
      this.#send({ type: "cardApplied", generation, reports, error: null });
    } catch (error) {
      this.#send({ type: "cardApplied", generation, reports, error: messageOf(error) });
    }
  }

  async #restore({ generation, scope }: Extract<TuneEffect, { kind: "restoreCard" }>): Promise<void> {
    try {
      const { levers } = await this.#parts.control.restore(scope);
      this.#send({ type: "cardRestored", generation, reports: levers, error: null });
    } catch (error) {
      this.#send({ type: "cardRestored", generation, reports: [], error: messageOf(error) });
    }
  }

  #keep({ book, forgetsUncleanEnd }: Extract<TuneEffect, { kind: "keepBook" }>): void {
    const { book: store, control, log } = this.#parts;
    this.#keeping = this.#keeping.then(async () => {
      await store.save(book);
      if (forgetsUncleanEnd) await control.forgetUncleanEnd();
      return null;
    }).catch((error) => {
      log.error("Cannot keep the profiles", { error: messageOf(error) });
      return messageOf(error);
    });
  }

  /** Whoever asked hears "done" once it is kept, so that it is true. */
  #answer({ requestId, reply }: Extract<TuneEffect, { kind: "answerTuning" }>): void {
    this.#keeping = this.#keeping.then((problem) => {
      this.#parts.resolve(
        requestId,
        problem === null || reply.kind === "refused" ? reply : {
          kind: "refused",
          code: "unavailable",
          message: `${reply.message}, but it can't be kept: ${problem}`,
          hint: "It counts until the service ends. Check server.state_dir: its disk and its permissions",
        },
      );
      return null;
    });
  }

  #record({ item: { kind, fields }, event }: Extract<TuneEffect, { kind: "recordTuning" }>): void {
    const { store, clock, log, onRecorded } = this.#parts;
    const kept = store.append({ atMs: clock.wallMs(), kind, fields: { message: event, ...fields } }).then(
      onRecorded,
      (error) => log.error("Cannot record an event", { error: messageOf(error), kind }),
    );
    this.#keeping = this.#keeping.then(async (problem) => {
      await kept;
      return problem;
    });
  }
}
