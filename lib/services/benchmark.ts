/** The benchmark (SPEC 2.8): transitions one after the other, each through the lane like anybody's; ComfyUI goes first. */
import type { ArbiterState } from "../decide/arbiter_state.ts";
import { planBenchmark } from "../decide/benchmark_plan.ts";
import { isComfyBusy } from "../decide/lane.ts";
import type { YieldResult } from "../model/arbitration.ts";
import type { BenchmarkLeg, BenchmarkRequest, BenchmarkResult, BenchmarkSummary } from "../model/benchmark.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type { HistoryItem } from "../model/history.ts";
import { joinSignals } from "../model/join_signals.ts";
import type { Clock, Log, Store } from "../model/ports.ts";
import type { Arbitration, Benchmark, CallOptions, Progress } from "../model/services.ts";
import { type MonotonicMs, round } from "../model/units.ts";
import { distributionOf } from "../model/distribution.ts";
import { isSameModel } from "../model/model_names.ts";

/** Long enough for tokens a second to mean something; bounded by what one answer may have. */
const PROMPT = "Count from 1 to 100 in words, one number a line.";

/** How long a model that works is waited for, and how often it is asked to go meanwhile. */
const BUSY_WAIT_MS = 60_000;
const BUSY_PAUSE_MS = 1_000;

export interface BenchmarkParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly store: Pick<Store, "append">;
  readonly arbitration: Arbitration;
  readonly state: () => ArbiterState;
  readonly onRecorded: (item: HistoryItem) => void;
}

/** Where a benchmark stands. */
interface Course {
  readonly request: BenchmarkRequest;
  /** The models of one round trip, in order. */
  readonly round: readonly string[];
  readonly legs: BenchmarkLeg[];
}

export class BenchmarkService implements Benchmark {
  readonly #parts: BenchmarkParts;
  /** Ends the transition under way in favour of ComfyUI; null while none runs. */
  #underWay: AbortController | null = null;

  constructor(parts: BenchmarkParts) {
    this.#parts = parts;
  }

  /** ComfyUI's queue, as the newest frame or read tells: work of its own goes before a benchmark, at once. */
  comfyHeard(queueRemaining: number): void {
    if (queueRemaining > 0) this.#underWay?.abort(new Failure("busy", "ComfyUI began to execute and goes first"));
  }

  async run(request: BenchmarkRequest, call: CallOptions): Promise<BenchmarkResult> {
    const course: Course = { request, round: this.#plan(request), legs: [] };
    const way = new AbortController();
    this.#underWay = way;
    let hasGivenWay = false;
    try {
      using both = joinSignals(call.signal, way.signal);
      await this.#travel(course, { ...call, signal: both.signal });
    } catch (error) {
      hasGivenWay = !call.signal.aborted && (way.signal.aborted || this.#isComfyBusy());
      if (!hasGivenWay) {
        this.#record(course, { hasGivenWay: false, message: `Ended early: ${messageOf(error)}` });
        throw error;
      }
    } finally {
      this.#underWay = null;
    }
    const result = resultOf(course, hasGivenWay);
    this.#record(course, result);
    return result;
  }

  #isComfyBusy(): boolean {
    return isComfyBusy(this.#parts.state());
  }

  #plan({ models }: BenchmarkRequest): readonly string[] {
    if (this.#underWay !== null) {
      throw new Failure("busy", "A benchmark is under way", { hint: "`hyperswap runs` lists it" });
    }
    const { sample, keep } = this.#parts.state();
    if (sample === null) {
      throw new Failure("unavailable", "The first sample isn't in yet", { hint: "Try again in a second" });
    }
    const plan = planBenchmark({ models, sample, keep, isComfyBusy: this.#isComfyBusy() });
    if (plan.kind === "go") return plan.round;
    const { code, message, hint, details } = plan.refusal;
    throw new Failure(code, `Cannot benchmark: ${message}`, {
      ...(hint === null ? {} : { hint }),
      ...(details === null ? {} : { details }),
    });
  }

  async #travel({ request, round, legs }: Course, call: CallOptions): Promise<void> {
    const { clock } = this.#parts;
    const count = request.iterations * round.length;
    const startMs = clock.monotonicMs();
    for (let iteration = 1; iteration <= request.iterations; iteration++) {
      for (const to of round) {
        call.signal.throwIfAborted();
        const usualMs = legs.length === 0 ? null : (clock.monotonicMs() - startMs) / legs.length;
        const progress = ({ phase }: Progress) =>
          call.progress({
            phase: `round trip ${iteration} of ${request.iterations}: ${phase}`,
            done: legs.length / count,
            etaMs: usualMs === null ? null : usualMs * (count - legs.length),
          });
        legs.push(await this.#leg({ iteration, to, round }, { signal: call.signal, progress }));
      }
    }
  }

  /** Unloads what the benchmark itself loads, confirmed, and loads the other one; others go only where it wouldn't fit. */
  async #leg(
    { iteration, to, round }: { readonly iteration: number; readonly to: string; readonly round: readonly string[] },
    call: CallOptions,
  ): Promise<BenchmarkLeg> {
    const { clock, arbitration } = this.#parts;
    const { yielded, startMs } = await this.#unload(round, call);
    const prompt = `${clock.uuid()} ${PROMPT}`;
    const swap = await arbitration.switchModel({ model: to, keepAlive: "30m", prompt, operation: "benchmark" }, call);
    const { answerMs, readBackMs } = swap.phases;
    return {
      iteration,
      from: yielded.models.find((name) => !isSameModel(name, to)) ?? yielded.models[0] ?? null,
      to: swap.targetModel,
      transitionMs: clock.monotonicMs() - startMs - (answerMs ?? 0) - (readBackMs ?? 0),
      unloadMs: yielded.confirmMs,
      loadMs: swap.loadMs,
      tokensPerSecond: swap.tokensPerSecond,
      residencyBeforePct: swap.residencyBeforePct,
      class: swap.class,
      classBasis: swap.classBasis,
      bytesPerSecond: swap.bytesPerSecond,
      spilled: swap.spilled,
      verdict: swap.verdict,
    };
  }

  /** Whoever is still answered, or still loads, ends first: that is no part of a transition. */
  async #unload(
    models: readonly string[],
    call: CallOptions,
  ): Promise<{ readonly yielded: YieldResult; readonly startMs: MonotonicMs }> {
    const { clock, arbitration } = this.#parts;
    const untilMs = clock.monotonicMs() + BUSY_WAIT_MS;
    while (true) {
      const startMs = clock.monotonicMs();
      const yielded = await arbitration.yieldVram({ models, confirm: true, operation: "benchmark" }, call);
      if (yielded.outcome !== "busy" || clock.monotonicMs() >= untilMs) {
        refuseHeld(yielded);
        return { yielded, startMs };
      }
      call.progress({ phase: `waiting for what Ollama still does: ${yielded.message}`, done: null, etaMs: null });
      await clock.sleep(BUSY_PAUSE_MS, call.signal);
    }
  }

  #record(
    { request, round: models, legs }: Course,
    { hasGivenWay, message }: Pick<BenchmarkResult, "hasGivenWay" | "message">,
  ): void {
    const { store, clock, log, onRecorded } = this.#parts;
    // Nothing was measured, and nobody was asked to go for it: the answer alone says why.
    if (legs.length === 0 && !hasGivenWay) return;
    const times = distributionOf(legs.map(({ transitionMs }) => transitionMs));
    const fields = {
      models,
      iterations: request.iterations,
      legs: legs.map((leg) => ({
        iteration: leg.iteration,
        to: leg.to,
        transition_ms: round(leg.transitionMs),
        load_ms: round(leg.loadMs),
        tokens_per_sec: round(leg.tokensPerSecond, 2),
        class: leg.class,
      })),
      transition_ms: times === null ? null : round(times.median),
      given_way: hasGivenWay,
      message,
    };
    store.append({ atMs: clock.wallMs(), kind: "benchmark", fields }).then(onRecorded, (error: unknown) => {
      log.error("Cannot record a benchmark", { error: messageOf(error) });
    });
  }
}

/** A load beside what should have gone would measure something else. */
function refuseHeld({ outcome, message }: YieldResult): void {
  if (outcome === "released" || outcome === "nothing_loaded" || outcome === "unconfirmed") return;
  throw new Failure(outcome === "busy" ? "busy" : "unavailable", `Cannot go on with the benchmark: ${message}`, {
    hint: outcome === "busy" ? "Try again when the request it answers has ended" : "See `hyperswap health`",
  });
}

function resultOf({ request, round: models, legs }: Course, hasGivenWay: boolean): BenchmarkResult {
  const iterationsDone = Math.floor(legs.length / models.length);
  const transitionMs = distributionOf(legs.map((leg) => leg.transitionMs));
  const between = models.length === 1 ? `${models[0]}, unloaded and reloaded` : models.join(" and ");
  const usual = transitionMs === null
    ? "no transition was completed"
    : `median ${round(transitionMs.median, 0)} ms over ${legs.length} transition${legs.length === 1 ? "" : "s"}`;
  const end = hasGivenWay
    ? ` Gave way to ComfyUI after ${legs.length} of ${request.iterations * models.length} transitions: run it again ` +
      "when its queue is empty"
    : "";
  return {
    models,
    iterationsAsked: request.iterations,
    iterationsDone,
    hasGivenWay,
    legs,
    summaries: models.map((to) => summaryOf(to, legs.filter((leg) => leg.to === to))),
    transitionMs,
    message: `${between}: ${usual}.${end}`,
  };
}

function summaryOf(to: string, legs: readonly BenchmarkLeg[]): BenchmarkSummary {
  const of = (pick: (leg: BenchmarkLeg) => number | null) =>
    distributionOf(legs.flatMap((leg) => {
      const value = pick(leg);
      return value === null ? [] : [value];
    }));
  const classes: Record<string, number> = {};
  for (const leg of legs) classes[leg.class] = (classes[leg.class] ?? 0) + 1;
  return {
    to,
    transitionMs: of((leg) => leg.transitionMs),
    loadMs: of((leg) => leg.loadMs),
    tokensPerSecond: of((leg) => leg.tokensPerSecond),
    residencyBeforePct: of((leg) => leg.residencyBeforePct),
    classes,
  };
}
