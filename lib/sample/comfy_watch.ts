import type { Clock, ComfyCompletion, ComfyQueue, Timer } from "../model/ports.ts";
import type { SourceReport } from "../model/sample.ts";
import type { ComfyState } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { ComfyClient } from "../upstream/comfy.ts";
import type { ComfyFrame, ComfyStats } from "../upstream/comfy_parse.ts";
import { type ComfySocket, type ComfySocketOptions, openComfySocket } from "../upstream/comfy_socket.ts";
import { isUnreached, UpstreamError } from "../upstream/upstream_error.ts";
import { CallReport } from "./call_report.ts";
import { ComfyCompletions } from "./comfy_completions.ts";
import { StepRate, type TimedSteps } from "./step_rate.ts";
import { type Poller, startPoller } from "./poller.ts";
import { awaitFirstAnswer, explainReach, type Reach } from "./reach.ts";

export interface ComfyActivity {
  readonly atMs: MonotonicMs;
  /** Running + pending. */
  readonly queueRemaining: number;
}

export interface ComfyWatchOptions {
  readonly api: ComfyClient;
  readonly clock: Clock;
  /** Called at once on each change of the count, and with the first count after the server (re)appeared. */
  readonly onActivity: (activity: ComfyActivity) => void;
  /** `timed`: the steps that were seen of it; null where its frames go to its submitter alone. */
  readonly onCompleted: (completion: ComfyCompletion, timed: TimedSteps | null) => void;
  /** For tests; the real socket by default. */
  readonly openSocket?: (options: ComfySocketOptions) => ComfySocket;
}

/** Everything but the server's process, which /proc tells. */
export type ComfyWatchState = Omit<ComfyState, "server">;

export interface ComfyWatch extends Timer {
  state(): ComfyWatchState;
  report(): SourceReport;
  /** What helps when it isn't online; null while it is. */
  remedy(): string | null;
  /** The server's own command line, from `/system_stats`; empty until told. */
  argv(): readonly string[];
  /** True while the socket is open but says nothing of what `/queue` shows: someone's stuck reader blocks it. */
  isSocketSilent(): boolean;
}

/** The fallback's rhythm, and the one that suffices beside a socket that speaks. */
const POLL_MS = 1_000;
const POLL_BESIDE_SOCKET_MS = 3_000;
const STATS_MS = 10_000;
/**
 * `/queue` can be ahead of frames still on their way (after a garbage collection all come at once). A count that
 * differs from the last frame's is believed after this long without a frame; acting on it at once would announce the
 * late frames' old counts as new work.
 */
const SETTLE_MS = 100;
/** The worker takes a prompt within milliseconds, or when its garbage collection ends. */
const TAKEN_WITHIN_MS = 2_000;
/** A silent socket is replaced at most this often: it may be our connection, and it may be someone else's. */
const RENEW_MS = 30_000;

/** Watches one ComfyUI until stopped. Starts at once. */
export function watchComfy(options: ComfyWatchOptions): ComfyWatch {
  return new ComfyWatcher(options);
}

class ComfyWatcher implements ComfyWatch {
  readonly #api: ComfyClient;
  readonly #clock: Clock;
  readonly #onActivity: (activity: ComfyActivity) => void;
  readonly #calls: CallReport;
  readonly #completions: ComfyCompletions;
  readonly #socket: ComfySocket;
  readonly #queuePoller: Poller;
  readonly #statsPoller: Poller;

  #socketState: ComfyState["socket"] = "connecting";
  #isSilent = false;
  #renewedAtMs = Number.NEGATIVE_INFINITY;
  #settling: Timer | null = null;
  /** Counts status frames, so that an answer can be told older than a frame. */
  #frames = 0;

  #count: number | null = null;
  #changedAtMs: MonotonicMs = 0;
  #announced: number | null = null;
  #runningId: string | null = null;
  #progress: ComfyState["progress"] = null;
  readonly #steps = new StepRate();
  #idleSinceMs: MonotonicMs | null = null;
  #stats: ComfyStats | null = null;

  #failure: UpstreamError | null = null;
  #heardAtMs: MonotonicMs | null = null;

  constructor({ api, clock, onActivity, onCompleted, openSocket = openComfySocket }: ComfyWatchOptions) {
    this.#api = api;
    this.#clock = clock;
    this.#onActivity = onActivity;
    this.#calls = new CallReport(clock);
    this.#completions = new ComfyCompletions({
      api,
      clock,
      onCompleted: (completion) => onCompleted(completion, this.#steps.take(completion.promptId)),
    });
    this.#socket = openSocket({
      url: api.url,
      clock,
      onFrame: (frame) => this.#onFrame(frame),
      onState: (state) => this.#onSocketState(state),
    });
    this.#queuePoller = startPoller({
      clock,
      work: (signal) => this.#readQueue(signal),
      periodMs: () => this.#socketState === "open" && !this.#isSilent ? POLL_BESIDE_SOCKET_MS : POLL_MS,
      minGapMs: 100,
    });
    this.#statsPoller = startPoller({ clock, work: (signal) => this.#readStats(signal), periodMs: () => STATS_MS });
  }

  state(): ComfyWatchState {
    const reach = this.#reach();
    const isOnline = reach === null;
    return {
      url: this.#api.url,
      online: isOnline,
      reason: reach?.reason ?? null,
      isRemote: this.#api.isRemote,
      version: isOnline ? this.#stats?.version ?? null : null,
      socket: this.#socketState,
      queueRemaining: this.#count,
      executing: this.#count === null ? null : this.#count > 0,
      runningPromptId: this.#runningId,
      idleSinceMs: this.#idleSinceMs,
      progress: this.#progress,
      vramFreeBytes: isOnline ? this.#stats?.vramFreeBytes ?? null : null,
    };
  }

  report(): SourceReport {
    return this.#calls.report(this.#queuePoller.crash, this.#statsPoller.crash, this.#completions.lastError);
  }

  remedy(): string | null {
    return this.#reach()?.remedy ?? null;
  }

  argv(): readonly string[] {
    return this.#stats?.argv ?? [];
  }

  isSocketSilent(): boolean {
    return this.#isSilent;
  }

  stop(): void {
    this.#settling?.stop();
    for (const part of [this.#queuePoller, this.#statsPoller, this.#completions, this.#socket]) part.stop();
  }

  /** Null while online. A stall is no absence: only a read that failed with nothing heard since counts. */
  #reach(): Reach | null {
    if (this.#failure !== null) return explainReach("comfyui", this.#api.url, this.#failure);
    return this.#heardAtMs === null ? awaitFirstAnswer("comfyui", this.#api.url) : null;
  }

  #onSocketState(state: ComfyState["socket"]): void {
    const wasOpen = this.#socketState === "open";
    this.#socketState = state;
    // What was missed between two connections is seen in /queue.
    if (wasOpen || state === "open") this.#queuePoller.poke();
  }

  #onFrame(frame: ComfyFrame): void {
    if (frame.kind === "status") this.#frames += 1;
    // A connection's first frame comes straight from the handshake; only later ones show that broadcasts get through.
    if (frame.kind !== "status" || frame.sid === null) this.#isSilent = false;
    this.#settling?.stop();
    if (frame.kind === "status") this.#onStatus(frame.queueRemaining);
    if (frame.kind === "progress") this.#onProgress(frame);
    this.#heard();
  }

  #onStatus(count: number): void {
    const before = this.#count ?? 0;
    this.#setCount(count);
    // Work began: which? Work ended: how? That still more is queued can wait: a long queue is a long body.
    if (before === 0 ? count > 0 : count < before) this.#queuePoller.poke();
  }

  #onProgress({ promptId, value, max }: Extract<ComfyFrame, { kind: "progress" }>): void {
    // A late one of a prompt that has ended already.
    if (this.#count === 0) return;
    this.#setRunning(promptId);
    this.#progress = { value, max };
    this.#steps.note({ promptId, value, max }, this.#clock.monotonicMs());
  }

  #heard(): void {
    this.#heardAtMs = this.#clock.monotonicMs();
    this.#failure = null;
  }

  /** The announcement comes first: whoever yields for this has no time to lose. */
  #setCount(count: number): void {
    const atMs = this.#clock.monotonicMs();
    const before = this.#count;
    this.#count = count;
    if (count !== this.#announced) {
      this.#announced = count;
      this.#onActivity({ atMs, queueRemaining: count });
    }
    if (count === before) return;
    this.#changedAtMs = atMs;
    this.#idleSinceMs = count === 0 ? atMs : null;
    if (before !== null && count < before) this.#completions.noteEnds(before - count, count);
    if (count === 0) this.#setRunning(null);
  }

  #setRunning(promptId: string | null): void {
    if (promptId !== this.#runningId) this.#progress = null;
    this.#runningId = promptId;
  }

  async #readQueue(signal: AbortSignal): Promise<void> {
    const startedAtMs = this.#clock.monotonicMs();
    const framesBefore = this.#frames;
    const ended = this.#calls.begin();
    try {
      const queue = await this.#api.queue(signal);
      ended(null);
      this.#onQueue(queue, framesBefore === this.#frames);
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof UpstreamError)) throw error;
      ended(error.message);
      this.#onFailure(error, startedAtMs);
    }
  }

  /** `isNewest`: no status frame has come since the question was asked. */
  #onQueue(queue: ComfyQueue, isNewest: boolean): void {
    const wasAbsent = this.#heardAtMs === null || this.#failure !== null;
    this.#heard();
    if (wasAbsent) this.#statsPoller.poke();
    // It may have come in the middle of a long back-off.
    if (wasAbsent && this.#socketState === "down") this.#socket.reconnect();
    this.#completions.noteQueue(queue);
    const count = queue.running.length + queue.pending.length;
    if (count > 0 && this.#count !== 0) this.#setRunning(queue.running[0] ?? null);
    // Read before the worker took it: which one runs shows in a moment, unless someone has paused the queue.
    const isFresh = this.#clock.monotonicMs() - this.#changedAtMs < TAKEN_WITHIN_MS;
    if (queue.running.length === 0 && count > 0 && isFresh) this.#queuePoller.poke();
    if (!isNewest) return;
    this.#settling?.stop();
    if (count === this.#count) return;
    const mayFramesFollow = this.#socketState === "open" && !this.#isSilent && this.#count !== null;
    if (!mayFramesFollow) return this.#believe(queue);
    this.#settling = this.#clock.after(SETTLE_MS, () => {
      this.#onSilence();
      this.#believe(queue);
      this.#queuePoller.poke();
    });
  }

  #believe(queue: ComfyQueue): void {
    this.#setCount(queue.running.length + queue.pending.length);
    this.#setRunning(queue.running[0] ?? null);
  }

  /** The queue moved and the socket didn't say so. */
  #onSilence(): void {
    this.#isSilent = true;
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#renewedAtMs < RENEW_MS) return;
    this.#renewedAtMs = nowMs;
    this.#socket.reconnect();
  }

  #onFailure(error: UpstreamError, startedAtMs: MonotonicMs): void {
    // Something was heard while this call hung: busy, not gone.
    const isHeardSince = this.#heardAtMs !== null && this.#heardAtMs >= startedAtMs;
    if (isUnreached(error)) this.#onGone();
    else if (isHeardSince) return;
    this.#failure = error;
  }

  /** Nobody listens there: queue and history are gone with the server, and what comes next is news again. */
  #onGone(): void {
    this.#settling?.stop();
    this.#count = null;
    this.#announced = null;
    this.#idleSinceMs = null;
    this.#stats = null;
    this.#setRunning(null);
    this.#completions.reset();
  }

  async #readStats(signal: AbortSignal): Promise<void> {
    try {
      this.#stats = await this.#api.stats(signal);
    } catch (error) {
      // The queue's reads tell whether it is there; old figures stay until the next answer.
      if (!(error instanceof UpstreamError) && !signal.aborted) throw error;
    }
  }
}
