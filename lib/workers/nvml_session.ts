/** The Worker's side of the card: an open library, or the reason why there is none. */
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { openNvml } from "../../ffi/nvml.ts";
import { type CardJournal, openCardJournal } from "../act/card_journal.ts";
import type { CardLibrary } from "../act/card_levers.ts";
import { CardWriter } from "../act/card_writer.ts";
import { openGpuTable } from "../lab/gpu_table.ts";
import type {
  CardEvent,
  CardLimits,
  CardReason,
  CardSetting,
  CardState,
  LeverReport,
  RestoreReport,
  RestoreScope,
} from "../model/card.ts";
import { type Clock, GpuUnavailable } from "../model/ports.ts";
import type { BarrierReading, GpuFacts, GpuReading } from "../model/sample.ts";
import { toGpuUnavailable } from "../sample/gpu_failure.ts";
import { type GpuReader, openGpuReader } from "../sample/gpu_reader.ts";
import { isGpuAsleep, maySleep } from "../sample/gpu_sleep.ts";
import { openXidEars, type XidEars } from "../sample/xid.ts";
import { IdleRelease } from "./idle_release.ts";
import type { NvmlConfig } from "./nvml_protocol.ts";

interface OpenCard {
  readonly nvml: CardLibrary;
  readonly reader: GpuReader;
  readonly facts: GpuFacts;
  /** Null: the card is only read. */
  readonly driven: { readonly writer: CardWriter; readonly ears: XidEars } | null;
}

export interface SessionParts {
  readonly clock: Clock;
  /** Told what happens to the card by itself. */
  readonly tell: (event: CardEvent) => void;
}

/** The monotonic clock stands still while the machine is suspended, the wall clock doesn't. */
const SUSPENDED_MS = 10_000;

/**
 * Opens the library when it is first needed, and anew after an error that means the card, and after a suspend. Every call
 * blocks, and throws GpuUnavailable; how often to try again is the client's business.
 */
export class NvmlSession implements Disposable {
  readonly #config: NvmlConfig;
  readonly #parts: SessionParts;
  readonly #libc: Libc = openLibc();
  readonly #journal: CardJournal | null;
  #card: OpenCard | null = null;
  #hasBeenOpen = false;
  /** What is put back is to be reported, so it isn't done beforehand. */
  #isRestoring = false;
  #wallAheadMs: number | null = null;
  readonly #idle: IdleRelease | null;
  /** The card's address from when it was last open: whether it sleeps is asked without opening it. */
  #pciBusId: string | null = null;

  constructor(config: NvmlConfig, parts: SessionParts) {
    this.#config = config;
    this.#parts = parts;
    const isReal = config.source.kind === "library";
    this.#idle = isReal && config.releaseIdleMs !== null ? new IdleRelease(config.releaseIdleMs) : null;
    this.#journal = config.levers === null ? null : openCardJournal(config.levers.stateDir);
  }

  facts(): GpuFacts {
    this.#letSleep();
    return this.#with((card) => card.facts);
  }

  read(options: { readonly isQuick: boolean }): GpuReading {
    this.#letSleep();
    this.#noticeSuspend();
    return this.#with((card) => {
      const reading = card.reader.read(options);
      this.#listen(card, reading);
      if (this.#idle?.isDue(reading, { atMs: this.#parts.clock.monotonicMs(), mayRelease: () => this.#mayRelease() })) {
        this.#drop();
      }
      return reading;
    });
  }

  readBarrier(): BarrierReading {
    return this.#with((card) => card.reader.readBarrier());
  }

  limits(): CardLimits {
    this.#letSleep();
    return this.#with((card) => driven(card).writer.limits());
  }

  state(): CardState {
    this.#letSleep();
    return this.#with((card) => {
      const { writer, ears } = driven(card);
      return { ...writer.state(), xidSource: ears.source };
    });
  }

  apply(setting: CardSetting, reason: CardReason): readonly LeverReport[] {
    this.#mayChange();
    // What is to be set is set now; only a card that really sleeps isn't woken for it.
    this.#idle?.end();
    this.#letSleep();
    return this.#with((card) => driven(card).writer.apply(setting, reason));
  }

  /** Wakes a card that sleeps only when there is something to put back on it. */
  restore(scope: RestoreScope): RestoreReport {
    this.#mayChange();
    if (scope !== "all" && this.#journal?.isEmpty() === true) {
      return { scope, levers: [], uncleanEnd: null, journalProblem: null };
    }
    this.#isRestoring = true;
    try {
      return this.#with((card) => driven(card).writer.restore(scope));
    } finally {
      this.#isRestoring = false;
    }
  }

  forgetUncleanEnd(): null {
    this.#mayChange();
    return this.#with((card) => {
      driven(card).writer.forgetUncleanEnd();
      return null;
    });
  }

  [Symbol.dispose](): void {
    this.#drop();
    this.#libc[Symbol.dispose]();
  }

  #mayChange(): void {
    if (this.#config.levers?.mayChange !== true) throw new Error("Cannot set a card that was opened for reading");
  }

  /** What came with this second: faults, locks that show whether they hold, fans whose sensor died. */
  #listen({ driven }: OpenCard, reading: GpuReading): void {
    if (driven === null) return;
    const { writer, ears } = driven;
    const atMs = this.#parts.clock.wallMs();
    for (const code of ears.poll()) {
      if (ears.source !== null) this.#parts.tell({ kind: "xid", atMs, code, source: ears.source });
    }
    for (const event of writer.observe(reading)) this.#parts.tell(event);
  }

  #with<T>(question: (card: OpenCard) => T): T {
    try {
      this.#card ??= this.#open();
      return question(this.#card);
    } catch (error) {
      this.#drop();
      throw toGpuUnavailable(error);
    }
  }

  #open(): OpenCard {
    const nvml = this.#openLibrary();
    try {
      const { clock } = this.#parts;
      const reader = openGpuReader(nvml, { clock, choice: this.#config.choice });
      const facts = reader.facts();
      const card = { nvml, reader, facts, driven: this.#drive(nvml, facts) };
      this.#pciBusId = facts.pciBusId;
      if (this.#hasBeenOpen) this.#parts.tell({ kind: "reopened", atMs: clock.wallMs() });
      this.#hasBeenOpen = true;
      return card;
    } catch (error) {
      nvml.close();
      throw error;
    }
  }

  /** Only what is opened first can find what an earlier owner left; later, the changes are our own. */
  #drive(nvml: CardLibrary, { uuid, name, pciBusId }: GpuFacts): OpenCard["driven"] {
    const { levers } = this.#config;
    const journal = this.#journal;
    if (journal === null || levers === null) return null;
    const device = nvml.deviceByUuid(uuid);
    const marksUncleanEnd = levers.marksUncleanEnd && !this.#hasBeenOpen;
    const { clock } = this.#parts;
    const writer = new CardWriter({ nvml, device, uuid, name, journal, clock, marksUncleanEnd });
    // What an earlier owner left is put back before anything else, even before the card is first read.
    if (levers.mayChange && !this.#hasBeenOpen && !this.#isRestoring) writer.restore("journal");
    return { writer, ears: openXidEars(nvml, { libc: this.#libc, device, pciBusId }) };
  }

  #openLibrary(): CardLibrary {
    const { source, levers } = this.#config;
    if (source.kind === "simulated") return openGpuTable(source.table);
    return openNvml({
      readText: (path) => this.#libc.readText(path),
      allowsChanges: levers?.mayChange === true,
      ...(source.paths === null ? {} : { paths: source.paths }),
    });
  }

  #drop(): void {
    this.#card?.driven?.ears[Symbol.dispose]();
    this.#card?.nvml.close();
    this.#card = null;
  }

  /** After a suspend the driver may have lost what was set, and give stale figures: everything is opened anew. */
  #noticeSuspend(): void {
    const { clock } = this.#parts;
    const aheadMs = clock.wallMs() - clock.monotonicMs();
    const jumpMs = aheadMs - (this.#wallAheadMs ?? aheadMs);
    this.#wallAheadMs = aheadMs;
    if (jumpMs < SUSPENDED_MS || this.#config.source.kind === "simulated") return;
    this.#drop();
    throw new GpuUnavailable(
      "lost",
      `Cannot read the GPU yet: the machine was suspended for ${Math.round(jumpMs / 1000)} s`,
      "Nothing to do: the driver is given a moment, then its library is opened again",
    );
  }

  /** What was set would be lost with the last handle. */
  #mayRelease(): boolean {
    const isUntouched = this.#journal === null || this.#journal.isEmpty();
    return isUntouched && this.#pciBusId !== null &&
      maySleep(this.#libc, { sysRoot: this.#config.sysRoot, pciBusId: this.#pciBusId });
  }

  /** A card the kernel has put to sleep isn't woken to be polled. What is open stays open: closing would wake it too. */
  #letSleep(): void {
    if (this.#config.source.kind === "simulated") return;
    const isAsleep = isGpuAsleep(this.#libc, { sysRoot: this.#config.sysRoot, pciBusId: this.#pciBusId });
    const isResting = this.#card === null &&
      this.#idle?.isResting({ atMs: this.#parts.clock.monotonicMs(), isAsleep }) === true;
    if (!isAsleep && !isResting) return;
    throw new GpuUnavailable(
      "asleep",
      isAsleep
        ? "Cannot read the GPU without waking it: it is runtime-suspended"
        : "The GPU is idle and was let go, so that it can sleep",
      "Nothing to do: it is read again as soon as a program uses it",
    );
  }
}

function driven({ driven }: OpenCard): NonNullable<OpenCard["driven"]> {
  if (driven !== null) return driven;
  throw new GpuUnavailable(
    "refused",
    "Cannot set the GPU: it was opened for reading only",
    "Ask the service that owns it: `hyperswap` without a service only reads",
  );
}
