import type { ComfyClient } from "../../lib/upstream/comfy.ts";
import { type ComfyFrame, type HistoryEntry, parseComfyFrame } from "../../lib/upstream/comfy_parse.ts";
import type { ComfySocket, ComfySocketOptions, ComfySocketState } from "../../lib/upstream/comfy_socket.ts";
import { UpstreamError, type UpstreamErrorKind } from "../../lib/upstream/upstream_error.ts";

export type Verb = "queue" | "stats" | "completion" | "recent";

/**
 * A hand-written ComfyUI behind the client's interface: a queue and a history that a test moves by hand. Nothing is
 * broadcast by itself, so that frames can come early, late, twice or not at all.
 */
export class FakeComfy implements ComfyClient {
  readonly url = "http://127.0.0.1:8188";
  readonly isRemote = false;
  readonly calls: string[] = [];
  /** How each kind of call fails from now on; a missing one succeeds. */
  readonly failures = new Map<Verb, UpstreamErrorKind>();
  /** While set, answers wait for it. */
  stall: Promise<void> | null = null;
  version = "0.3.64";
  /** While false, the worker takes nothing: all that is queued is pending. */
  isWorking = true;
  /** Called as each answer is about to be made. */
  beforeAnswer: ((verb: Verb) => void) | null = null;
  #number = 0;
  #queued: string[] = [];
  #history: HistoryEntry[] = [];

  post(promptId: string): void {
    this.#queued = [...this.#queued, promptId];
  }

  /** The prompt is done: out of the queue and in the history, in one step as in the real one. */
  end(promptId: string, status: HistoryEntry["status"] = "success"): void {
    this.remove(promptId);
    const number = this.#number++;
    const entry = { promptId, number, status, startedAtMs: 1_000 + number, endedAtMs: 2_000 + number, error: null };
    this.#history = [...this.#history.filter((other) => other.promptId !== promptId), entry];
  }

  /** Deleted before it ran: gone without a trace. */
  remove(promptId: string): void {
    this.#queued = this.#queued.filter((id) => id !== promptId);
  }

  restart(): void {
    this.#queued = [];
    this.#history = [];
    this.#number = 0;
  }

  get queued(): readonly string[] {
    return this.#queued;
  }

  callsOf(verb: Verb): number {
    return this.calls.filter((call) => call.startsWith(verb)).length;
  }

  /** What the queue holds when it is asked, however late the answer comes. */
  async queue(signal: AbortSignal) {
    const queued = this.#queued;
    await this.#answer("queue", signal);
    const running = this.isWorking ? 1 : 0;
    return { running: queued.slice(0, running), pending: queued.slice(running) };
  }

  async stats(signal: AbortSignal) {
    await this.#answer("stats", signal);
    return { version: this.version, vramFreeBytes: 12e9, argv: ["main.py", "--listen"] };
  }

  async completion(promptId: string, signal: AbortSignal) {
    await this.#answer("completion", signal, promptId);
    return this.#history.find((entry) => entry.promptId === promptId) ?? null;
  }

  async recent(limit: number, signal: AbortSignal) {
    await this.#answer("recent", signal, String(limit));
    return this.#history.slice(-limit);
  }

  free(): Promise<void> {
    throw new Error("Cannot free: a watcher only watches");
  }

  interrupt(): Promise<void> {
    throw new Error("Cannot interrupt: a watcher only watches");
  }

  modelFolders(): Promise<readonly []> {
    return Promise.resolve([]);
  }

  models(): Promise<readonly string[]> {
    return Promise.resolve([]);
  }

  async #answer(verb: Verb, signal: AbortSignal, detail = ""): Promise<void> {
    this.calls.push(`${verb} ${detail}`.trim());
    const stall = this.stall;
    if (stall !== null) {
      const { promise, reject } = Promise.withResolvers<never>();
      const onAbort = () => reject(new UpstreamError(verb, { url: this.url, kind: "aborted", reason: "cancelled" }));
      signal.addEventListener("abort", onAbort, { once: true });
      await Promise.race([stall, promise]);
      signal.removeEventListener("abort", onAbort);
    }
    this.beforeAnswer?.(verb);
    const kind = this.failures.get(verb);
    if (kind !== undefined) {
      throw new UpstreamError(`read ${verb}`, { url: this.url, kind, reason: `test says ${kind}` });
    }
  }
}

/** The socket's other end, in a test's hands. */
export class FakeSocket implements ComfySocket {
  state: ComfySocketState = "connecting";
  reconnects = 0;
  isStopped = false;
  readonly #options: ComfySocketOptions;

  constructor(options: ComfySocketOptions) {
    this.#options = options;
  }

  become(state: ComfySocketState): void {
    this.state = state;
    this.#options.onState(state);
  }

  /** The broadcast of a count; with `sid`, the greeting of a new connection. */
  status(queueRemaining: number, sid: string | null = null): void {
    this.send({ kind: "status", queueRemaining, sid });
  }

  send(frame: ComfyFrame): void {
    if (!this.isStopped) this.#options.onFrame(frame);
  }

  /** A frame as it was recorded. */
  sendRecorded(frame: unknown): void {
    const parsed = parseComfyFrame(JSON.stringify(frame));
    if (parsed !== null && parsed.kind !== "other") this.send(parsed);
  }

  reconnect(): void {
    this.reconnects += 1;
  }

  stop(): void {
    this.isStopped = true;
  }
}
