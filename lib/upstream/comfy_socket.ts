import type { Clock, Timer } from "../model/ports.ts";
import { type ComfyFrame, parseComfyFrame } from "./comfy_parse.ts";
import { clientUrl } from "./locality.ts";

export type ComfySocketState = "open" | "connecting" | "down";

export interface ComfySocketOptions {
  /** Base URL of the server, http or https. */
  readonly url: string;
  readonly clock: Clock;
  /** Called for every frame that says something to an observer, as it arrives. */
  readonly onFrame: (frame: ComfyFrame) => void;
  /** Called on each change of state. */
  readonly onState: (state: ComfySocketState) => void;
}

export interface ComfySocket extends Timer {
  readonly state: ComfySocketState;
  /** Drops the connection and makes a new one at once. */
  reconnect(): void;
}

/** ComfyUI takes 6 s and more to start: waiting longer than this would be noticed. */
const MAX_BACK_OFF_MS = 5_000;
const FIRST_BACK_OFF_MS = 250;
/** A connection that lasted this long was a good one: its end starts a new series of tries. */
const GOOD_AFTER_MS = 10_000;
/** A stopped process still accepts TCP, and then says nothing. */
const HANDSHAKE_MS = 5_000;
/** Newer servers know both; a fork may know one. */
const PATHS = ["/ws", "/api/ws"] as const;

/**
 * Listens to a server's broadcasts for as long as it isn't stopped. Every message is read as it comes, since a reader
 * that doesn't drain its socket freezes everyone's frames. Each connection has a clientId of its own: with one that is
 * in use the server lets the newer connection go deaf when the older closes.
 */
export function openComfySocket(options: ComfySocketOptions): ComfySocket {
  return new ListeningSocket(options);
}

class ListeningSocket implements ComfySocket {
  readonly #options: ComfySocketOptions;
  readonly #base: string;
  #state: ComfySocketState = "connecting";
  #socket: WebSocket | null = null;
  #timer: Timer | null = null;
  #failures = 0;
  #pathIndex = 0;
  #openedAtMs: number | null = null;
  #isStopped = false;

  constructor(options: ComfySocketOptions) {
    this.#options = options;
    this.#base = clientUrl(options.url).replace(/^http/, "ws");
    this.#connect();
  }

  get state(): ComfySocketState {
    return this.#state;
  }

  reconnect(): void {
    if (this.#isStopped) return;
    this.#drop();
    this.#connect();
  }

  stop(): void {
    this.#isStopped = true;
    this.#drop();
    this.#state = "down";
  }

  #connect(): void {
    this.#timer?.stop();
    this.#setState("connecting");
    const path = PATHS[this.#pathIndex % PATHS.length];
    const socket = new WebSocket(`${this.#base}${path}?clientId=${this.#options.clock.uuid()}`);
    socket.binaryType = "arraybuffer";
    this.#socket = socket;
    this.#timer = this.#options.clock.after(HANDSHAKE_MS, () => this.#onEnd(socket));
    socket.onopen = () => this.#onOpen(socket);
    socket.onmessage = (event) => this.#onMessage(socket, event.data);
    socket.onclose = () => this.#onEnd(socket);
    // Always followed by a close event on a failed connection, but not on every kind of protocol error.
    socket.onerror = () => this.#onEnd(socket);
  }

  #onOpen(socket: WebSocket): void {
    if (socket !== this.#socket) return;
    this.#timer?.stop();
    this.#openedAtMs = this.#options.clock.monotonicMs();
    this.#setState("open");
  }

  #onMessage(socket: WebSocket, data: unknown): void {
    // Binary frames are previews.
    if (socket !== this.#socket || typeof data !== "string") return;
    const frame = parseComfyFrame(data);
    if (frame !== null && frame.kind !== "other") this.#options.onFrame(frame);
  }

  #onEnd(socket: WebSocket): void {
    if (socket !== this.#socket) return;
    const lastedMs = this.#openedAtMs === null ? null : this.#options.clock.monotonicMs() - this.#openedAtMs;
    // One that never opened may be the wrong path.
    if (lastedMs === null) this.#pathIndex += 1;
    this.#failures = lastedMs !== null && lastedMs >= GOOD_AFTER_MS ? 0 : this.#failures + 1;
    this.#drop();
    this.#setState("down");
    this.#timer = this.#options.clock.after(this.#backOffMs(), () => this.#connect());
  }

  /** Doubles up to its bound, less a random half, so that many watchers don't come back in step. */
  #backOffMs(): number {
    const ms = Math.min(MAX_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** Math.max(0, this.#failures - 1));
    return ms * (0.5 + this.#options.clock.random() / 2);
  }

  #drop(): void {
    this.#timer?.stop();
    this.#timer = null;
    this.#openedAtMs = null;
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null) return;
    // Events of a dropped socket are of no interest, but an error event without a listener would be reported.
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.onerror = () => {};
    if (socket.readyState === WebSocket.CONNECTING || socket.readyState === WebSocket.OPEN) socket.close();
  }

  #setState(state: ComfySocketState): void {
    if (state === this.#state) return;
    this.#state = state;
    this.#options.onState(state);
  }
}
