import type { Exchange } from "./exchange.ts";
import { WireSocket } from "./wire_socket.ts";

interface Outgoing {
  readonly type: string;
  readonly data: Readonly<Record<string, unknown>>;
  /** Null: everyone. */
  readonly to: string | null;
}

export interface ComfySocketsOptions {
  /** The first frame's data, and what a returning client is told about its running prompt. */
  readonly queueRemaining: () => number;
  readonly runningNodeOf: (sid: string) => string | null;
  /** Resolves when the process isn't collecting garbage: nothing is sent meanwhile. */
  readonly free: () => Promise<void>;
  readonly newSid: () => string;
  readonly onError: (error: unknown) => void;
}

const FEATURES = { supports_preview_metadata: true, max_upload_size: 104_857_600 } as const;

/**
 * Who listens, by client id, and the one publisher that serves them in turn: a client that doesn't read its socket holds
 * up everyone's frames. A second socket with an id takes the first one's place, and goes deaf when the first closes.
 */
export class ComfySockets {
  readonly #options: ComfySocketsOptions;
  readonly #bySid = new Map<string, WireSocket>();
  readonly #all = new Set<WireSocket>();
  readonly #outbox: Outgoing[] = [];
  #isPublishing = false;

  constructor(options: ComfySocketsOptions) {
    this.#options = options;
  }

  get count(): number {
    return this.#all.size;
  }

  /** Answers the upgrade; false when the request is none. */
  async accept(exchange: Exchange): Promise<boolean> {
    const given = exchange.head.query.get("clientId");
    const sid = given === null || given === "" ? this.#options.newSid() : given;
    let isFirst = true;
    let mine: WireSocket | null = null;
    const socket = await WireSocket.accept(exchange, {
      onText: (text) => {
        if (isFirst) this.#greet(sid, text);
        isFirst = false;
      },
      onEnd: () => {
        // By id, whoever stands there now: that is how a second socket goes deaf.
        this.#bySid.delete(sid);
        if (mine !== null) this.#all.delete(mine);
      },
    });
    if (socket === null) return false;
    mine = socket;
    this.#bySid.set(sid, socket);
    this.#all.add(socket);
    const status = { exec_info: { queue_remaining: this.#options.queueRemaining() } };
    await socket.send(frame("status", { status, sid }));
    const node = this.#options.runningNodeOf(sid);
    if (node !== null) await socket.send(frame("executing", { node }));
    return true;
  }

  /** Queues a frame; `to` null = everyone. One for an id that nobody has is dropped. */
  send(
    type: string,
    { data, to }: { readonly data: Readonly<Record<string, unknown>>; readonly to: string | null },
  ): void {
    this.#outbox.push({ type, data, to });
    if (this.#isPublishing) return;
    this.#isPublishing = true;
    this.#publish().catch(this.#options.onError).finally(() => {
      this.#isPublishing = false;
    });
  }

  /** Ends every connection without a close frame. */
  drop(): void {
    for (const socket of [...this.#all]) socket.drop();
  }

  async #publish(): Promise<void> {
    for (let next; (next = this.#outbox.shift()) !== undefined;) {
      await this.#options.free();
      const text = frame(next.type, next.data);
      const only = next.to === null ? null : this.#bySid.get(next.to);
      const targets = next.to === null ? [...this.#bySid.values()] : only === undefined || only === null ? [] : [only];
      for (const socket of targets) await socket.send(text);
    }
  }

  /** The handshake counts only as a client's first message. */
  #greet(sid: string, text: string): void {
    let message: unknown;
    try {
      message = JSON.parse(text);
    } catch {
      // Garbage is ignored.
      return;
    }
    const isHandshake = typeof message === "object" && message !== null && "type" in message &&
      message.type === "feature_flags";
    if (isHandshake) this.send("feature_flags", { data: FEATURES, to: sid });
  }
}

function frame(type: string, data: Readonly<Record<string, unknown>>): string {
  return JSON.stringify({ type, data });
}
