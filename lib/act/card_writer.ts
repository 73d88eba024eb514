/**
 * The only writer of a card. Everything it changes is in the journal, on disk, before the driver is told; everything it
 * changed is read back. Synchronous and blocking: it lives in the nvml Worker, beside the library.
 */
import type { DeviceHandle } from "../../ffi/nvml.ts";
import {
  type CardEvent,
  type CardLimits,
  type CardReason,
  type CardSetting,
  type CardState,
  type JournalEntry,
  type Lever,
  type LeverReport,
  LEVERS,
  type LeverValue,
  type RestoreReport,
  type RestoreScope,
} from "../model/card.ts";
import { messageOf } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { GpuReading } from "../model/sample.ts";
import type { CardJournal } from "./card_journal.ts";
import type { CardLibrary } from "./card_levers.ts";
import { inOrder, isLock, ORDER_AWAY, ORDER_TO_STOCK, type Step } from "./card_order.ts";
import { PendingLevers } from "./card_pending.ts";
import { TemperatureTrust } from "./card_trust.ts";
import { LeverStand } from "./lever_stand.ts";
import { fitToCard, isExactly, judge, type Judgement, judgeRefusal } from "./lever_verdict.ts";

export interface CardWriterOptions {
  readonly nvml: CardLibrary;
  readonly device: DeviceHandle;
  readonly uuid: string;
  readonly name: string;
  readonly journal: CardJournal;
  readonly clock: Pick<Clock, "wallMs">;
  /** Changes that an earlier owner left mean that it ended badly; false while that owner still lives. */
  readonly marksUncleanEnd?: boolean;
}

export class CardWriter {
  readonly #options: CardWriterOptions;
  readonly #stand: LeverStand;
  readonly #reports = new Map<Lever, LeverReport>();
  readonly #pending = new PendingLevers();
  readonly #trust = new TemperatureTrust();
  /** Levers that an earlier owner changed; none once they are put back. */
  #inherited: ReadonlySet<Lever>;

  constructor(options: CardWriterOptions) {
    this.#options = options;
    this.#stand = new LeverStand(options.nvml, options.device);
    this.#inherited = new Set(options.marksUncleanEnd === false ? [] : this.#changedOrAll());
  }

  limits(): CardLimits {
    const { uuid, name, nvml, device } = this.#options;
    const fan = this.#stand.limits("fan");
    // as: fromEntries loses that every lever is there.
    const levers = Object.fromEntries(
      LEVERS.map((lever) => [lever, this.#stand.limits(lever)]),
    ) as CardLimits["levers"];
    return { uuid, name, fanCount: fan.adjustable ? nvml.fanCount(device) : 0, levers };
  }

  /** All but the Xid source, which the session knows. */
  state(): Omit<CardState, "xidSource"> {
    const { clock } = this.#options;
    // A lock that nobody knows of is taken for none: nothing reads it back.
    const value = (lever: Lever) => this.#stand.value(lever) ?? (isLock(lever) ? "stock" : null);
    // as: fromEntries loses that every lever is there.
    const values = Object.fromEntries(LEVERS.map((lever) => [lever, value(lever)])) as CardState["values"];
    return {
      atMs: clock.wallMs(),
      values,
      reports: Object.fromEntries(this.#reports),
      changed: this.#changedOrAll(),
    };
  }

  apply(setting: CardSetting, reason: CardReason): readonly LeverReport[] {
    const { journal, uuid } = this.#options;
    const changedBefore = new Set(this.#changedOrAll());
    const reports = new Map<Lever, LeverReport>();
    const steps = this.#plan(setting, reports);
    const toStock = steps.filter(({ value }) => value === "stock");
    const away = steps.filter(({ value }) => value !== "stock");
    for (const step of inOrder(toStock, ORDER_TO_STOCK)) reports.set(step.lever, this.#carryOut(step));
    const problem = this.#announce(away, reason);
    for (const step of inOrder(away, ORDER_AWAY)) {
      reports.set(step.lever, problem === null ? this.#carryOut(step) : this.#report(step.lever, step.value, problem));
    }
    if (problem === null) {
      // A restore beside us (they took us for hung) may have written "restored" between our line and our change.
      const lost = away.filter(({ lever }) => !journal.changed(uuid).includes(lever));
      if (lost.length > 0) this.#announce(lost, reason);
      const fresh = away.map(({ lever }) => lever).filter((lever) => !changedBefore.has(lever));
      this.#settle([...reports.values()], new Set(fresh));
    }
    this.#pending.note([...reports.values()], { reason, atMs: this.#options.clock.wallMs() });
    return LEVERS.flatMap((lever) => reports.get(lever) ?? []);
  }

  restore(scope: RestoreScope): RestoreReport {
    const { journal, uuid } = this.#options;
    const changed = new Set(this.#changedOrAll());
    this.#pending.clear();
    const isMeant = (lever: Lever) => changed.has(lever) && (scope !== "fans" || lever === "fan");
    const levers = scope === "all" ? ORDER_TO_STOCK : ORDER_TO_STOCK.filter(isMeant);
    const reports = levers.map((lever) => this.#restoreOne(lever));
    let journalProblem: string | null = null;
    let uncleanEnd: RestoreReport["uncleanEnd"] = null;
    try {
      const marks = this.#inherited.size > 0 && [...this.#inherited].some((lever) => changed.has(lever));
      if (marks) this.#note([{ kind: "unclean_end", ...this.#stamp(), profile: journal.profile(uuid) }]);
      this.#inherited = new Set();
      this.#settle(reports);
      journal.compact();
      uncleanEnd = journal.uncleanEnd(uuid);
    } catch (error) {
      journalProblem = `Cannot bring the card's journal up to date: ${messageOf(error)}`;
    }
    return {
      scope,
      levers: reports,
      uncleanEnd: uncleanEnd === null ? null : { atMs: uncleanEnd.atMs, profile: uncleanEnd.profile },
      journalProblem,
    };
  }

  forgetUncleanEnd(): void {
    this.#options.journal.compact({ forgetUncleanEnd: this.#options.uuid });
  }

  /**
   * Looks at a reading for what setters can't tell: whether locks hold, and whether the temperature can be trusted. And
   * tries again what the driver wasn't ready for.
   */
  observe(reading: GpuReading): readonly CardEvent[] {
    return [...this.#watchLocksAndFans(reading), ...this.#retry()];
  }

  #watchLocksAndFans(reading: GpuReading): readonly CardEvent[] {
    for (const { lever, seen } of this.#stand.seeLocks(reading)) {
      const report = this.#reports.get(lever);
      if (seen === null || report === undefined) continue;
      this.#reports.set(lever, { ...report, ...seen, remedy: null, atMs: this.#options.clock.wallMs() });
    }
    const distrust = this.#trust.see(reading);
    if (distrust === null || !this.#hasPinnedFans()) return [];
    const [report] = this.apply({ fan: "stock" }, { by: "governor", profile: null, text: distrust });
    if (report === undefined) return [];
    return [{ kind: "fans_released", atMs: report.atMs, reason: distrust, report }];
  }

  #retry(): readonly CardEvent[] {
    const atMs = this.#options.clock.wallMs();
    return this.#pending.due(atMs).flatMap(({ lever, wanted, reason }): readonly CardEvent[] =>
      this.apply({ [lever]: wanted }, reason).map((report) => ({ kind: "retried", atMs, report }))
    );
  }

  /** Fans we pinned and have not given back; another tool's are not ours to touch. */
  #hasPinnedFans(): boolean {
    const report = this.#reports.get("fan");
    return report !== undefined && report.wanted !== "stock" && report.verdict !== "not_permitted" &&
      report.verdict !== "not_supported";
  }

  /** What has to be set; levers that already stand there, or can't, get their report at once. */
  #plan(setting: CardSetting, reports: Map<Lever, LeverReport>): readonly Step[] {
    return LEVERS.flatMap((lever): readonly Step[] => {
      const wish = setting[lever];
      if (wish === undefined) return [];
      const limits = this.#stand.limits(lever);
      if (!limits.adjustable) {
        reports.set(lever, this.#report(lever, wish, this.#stand.unable(lever, limits)));
        return [];
      }
      const value = fitToCard(wish, limits);
      const before = this.#stand.value(lever);
      // Fans are set again: the figure of one says nothing of the others.
      const isKnown = before !== null && (lever !== "fan" || before === "stock");
      if (isKnown && isExactly({ wanted: value, readBack: before }, limits)) {
        const evidence = `The card stands there already`;
        const judgement = this.#standing(lever, value) ??
          { readBack: before, verdict: "honoured", evidence, remedy: null };
        reports.set(lever, this.#report(lever, value, judgement));
        return [];
      }
      return [{ lever, value, before, limits }];
    });
  }

  /** A lock that we set and that is wanted again keeps the verdict it has by now. */
  #standing(lever: Lever, value: LeverValue): Judgement | null {
    const report = this.#reports.get(lever);
    return isLock(lever) && report !== undefined && report.wanted === value ? report : null;
  }

  /** Journals what is about to be changed. Gives why that failed: nothing is changed then. */
  #announce(steps: readonly Step[], reason: CardReason): Judgement | null {
    try {
      const stamp = this.#stamp();
      this.#note(
        steps.map(({ lever, value, before }) => ({ kind: "change", ...stamp, lever, before, to: value, reason })),
      );
      return null;
    } catch (error) {
      return {
        readBack: null,
        verdict: "failed",
        evidence: `Nothing was changed: the card's journal can't be written: ${messageOf(error)}`,
        remedy: "Free space in the state directory, or give another with --state-dir",
      };
    }
  }

  #carryOut(step: Step): LeverReport {
    const { lever, value, before, limits } = step;
    const refusal = this.#stand.set(lever, value);
    const readBack = this.#stand.read(lever);
    if (refusal === null) {
      return this.#report(lever, value, judge(lever, { wanted: value, before, readBack, limits }));
    }
    const judgement = judgeRefusal(lever, value, refusal);
    const { verdict, evidence } = judgement;
    if (verdict === "not_supported") this.#stand.rule(lever, { adjustable: false, verdict, evidence });
    return this.#report(lever, value, { ...judgement, readBack });
  }

  #restoreOne(lever: Lever): LeverReport {
    const limits = this.#stand.limits(lever);
    // Limits that aren't known yet are no reason not to try.
    if (!limits.adjustable && this.#stand.knowsLimits(lever)) {
      return this.#report(lever, "stock", this.#stand.unable(lever, limits));
    }
    const before = this.#stand.read(lever);
    if (before !== null && isExactly({ wanted: "stock", readBack: before }, limits)) {
      const evidence = "It stands at stock already";
      return this.#report(lever, "stock", { readBack: before, verdict: "honoured", evidence, remedy: null });
    }
    return this.#carryOut({ lever, value: "stock", before, limits });
  }

  /** Brings the journal up to what really happened. `fresh`: levers whose change was announced just now. */
  #settle(reports: readonly LeverReport[], fresh: ReadonlySet<Lever> = new Set()): void {
    const { journal, uuid } = this.#options;
    const changed = new Set(journal.changed(uuid));
    const isBack = ({ lever, wanted, verdict }: LeverReport) =>
      wanted === "stock"
        ? verdict === "honoured" || verdict === "unverified"
        // What the driver refused outright has not moved.
        : fresh.has(lever) && (verdict === "not_supported" || verdict === "not_permitted");
    const back = reports.filter((report) => changed.has(report.lever) && isBack(report));
    this.#note(back.map(({ lever }) => ({ kind: "restored", ...this.#stamp(), lever })));
    if (back.length > 0) journal.compact();
  }

  #note(entries: readonly JournalEntry[]): void {
    this.#options.journal.note(entries);
  }

  /** An unreadable journal doesn't say what was changed, so everything counts as changed. */
  #changedOrAll(): readonly Lever[] {
    try {
      return this.#options.journal.changed(this.#options.uuid);
    } catch {
      return LEVERS;
    }
  }

  #stamp(): { readonly atMs: number; readonly gpu: string } {
    return { atMs: this.#options.clock.wallMs(), gpu: this.#options.uuid };
  }

  #report(lever: Lever, wanted: LeverValue, judgement: Judgement): LeverReport {
    const { readBack, verdict, evidence, remedy } = judgement;
    const report = { lever, wanted, readBack, verdict, evidence, remedy, atMs: this.#options.clock.wallMs() };
    this.#reports.set(lever, report);
    return report;
  }
}
