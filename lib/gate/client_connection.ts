/** One client's connection, and the one that its requests go over to the upstream: what ends on one side is seen on the other. */
import { messageOf } from "../model/failure.ts";
import type { Timer } from "../model/ports.ts";
import { type BodyFrame, requestFrame } from "./body_frame.ts";
import type { DoorSide } from "./door_side.ts";
import { holdRequest } from "./held_exchange.ts";
import { heldPath, pathOf } from "./held_route.ts";
import { MAX_HEAD_BYTES, parseRequestHead, type RequestHead } from "./http_head.ts";
import { type OwnAnswer, ownAnswer } from "./own_answer.ts";
import { type Ending, relay } from "./relay.ts";
import { type Socket, SocketGone } from "./socket.ts";
import { connectUpstream, Unreached } from "./upstream_link.ts";

/** From a head's first byte to its last. */
const HEAD_MS = 30_000;
/** How long a client that has closed its sending side may still read an answer that costs the upstream nothing. */
const HANG_UP_MS = 1_000;
/** How long a closed connection is still read, so that what was answered isn't lost to a reset. */
const LINGER_MS = 2_000;
const LINGER_BYTES = 64 * 2 ** 20;

export class ClientConnection {
  readonly #side: DoorSide;
  readonly #client: Socket;
  #link: Socket | null = null;
  #isIdle = true;
  #isTunnel = false;
  #isEnding = false;
  #timers = new Set<Timer>();

  constructor(side: DoorSide, client: Socket) {
    this.#side = side;
    this.#client = client;
  }

  /** Nothing is under way on it. */
  get isIdle(): boolean {
    return this.#isIdle;
  }

  /** It carries a WebSocket: it would stay for ever. */
  get isTunnel(): boolean {
    return this.#isTunnel;
  }

  /** Takes no further request; what is under way may end. */
  end(): void {
    this.#isEnding = true;
    if (this.#isIdle) this.close();
  }

  close(): void {
    this.#client.close();
    this.#link?.close();
  }

  /** Serves request after request. Resolves when the connection is gone; rejects only on a defect. */
  async serve(): Promise<void> {
    try {
      while (await this.#serveNext() && !this.#isEnding) this.#rest();
      this.#dropLink();
      await this.#linger();
    } catch (error) {
      // A client that is gone while it is written to is no defect.
      if (!(error instanceof SocketGone)) throw error;
    } finally {
      for (const timer of this.#timers) timer.stop();
      this.close();
    }
  }

  #rest(): void {
    this.#isIdle = true;
    this.#client.rest();
    this.#link?.rest();
    // Its end is noticed at once, so that no request is lost to a connection that is gone.
    void this.#link?.fill();
  }

  async #serveNext(): Promise<boolean> {
    const client = this.#client;
    if (client.unreadLength === 0 && !(await client.fill())) return false;
    this.#isIdle = false;
    const text = client.takeHeadNow(MAX_HEAD_BYTES) ?? await this.#takeLateHead();
    if (text === "ended") return false;
    if (text === "too long") return await this.#refuse({ status: 431, message: "The request's head is too long" });
    const head = parseRequestHead(text);
    const frame = head === null ? null : requestFrame(head);
    if (head === null || frame === null) {
      return await this.#refuse({ status: 400, message: "This is no request that can be passed on" });
    }
    if (head.method === "CONNECT") {
      return await this.#refuse({ status: 405, message: "The gate leads to one server only" });
    }
    const path = heldPath(this.#side.tenant, head);
    if (path === null) return await this.#pass(head, frame);
    return await holdRequest({
      side: this.#side,
      client,
      head,
      frame,
      path,
      connect: (signal) => this.#connect(signal),
      dropLink: () => this.#dropLink(),
    });
  }

  /** Most heads come whole. For one that doesn't the clock runs. */
  async #takeLateHead(): Promise<string> {
    const slow = this.#side.clock.after(HEAD_MS, () => this.#client.close());
    const text = await this.#client.takeHead(MAX_HEAD_BYTES);
    slow.stop();
    return text;
  }

  async #pass(head: RequestHead, frame: BodyFrame): Promise<boolean> {
    const hasBody = !frame.isDone;
    const wasOpen = this.#link !== null;
    try {
      let ending = await this.#relayOnce(head, frame);
      // A connection that the upstream closed just as it was used again: what changes nothing may be asked once more.
      const mayRepeat = wasOpen && !hasBody && ["GET", "HEAD", "OPTIONS"].includes(head.method);
      if (ending.kind === "upstream_failed" && ending.isSilent && mayRepeat) {
        this.#dropLink();
        ending = await this.#relayOnce(head, frame);
      }
      if (ending.kind === "upstream_failed") this.#side.log.debug("An upstream broke off", { why: ending.message });
      return ending.kind === "answered" && ending.isReusable;
    } catch (error) {
      if (!(error instanceof Unreached)) throw error;
      return await this.#refuse({ status: 502, message: messageOf(error) }, head);
    }
  }

  async #relayOnce(head: RequestHead, frame: BodyFrame): Promise<Ending> {
    const link = await this.#connect(null);
    return await relay({
      head,
      frame,
      kept: null,
      client: this.#client,
      link,
      marks: [],
      onTunnel: () => this.#isTunnel = true,
      afterHangUp: (run) => this.#timers.add(this.#side.clock.after(HANG_UP_MS, run)),
    });
  }

  async #connect(signal: AbortSignal | null): Promise<Socket> {
    const link = this.#link;
    // Bytes that nobody asked for belong to no answer.
    if (link !== null && !link.hasEnded && link.unreadLength === 0) return link;
    this.#dropLink();
    return this.#link = await connectUpstream(this.#side.upstream, signal);
  }

  #dropLink(): void {
    this.#link?.close();
    this.#link = null;
  }

  async #refuse(word: OwnAnswer, head: RequestHead | null = null): Promise<boolean> {
    const path = head === null ? "" : pathOf(head.target) ?? "";
    await this.#client.write(ownAnswer(word, { tenant: this.#side.tenant, path, closes: true }));
    return false;
  }

  /** Ends our side first and reads what is still under way: a reset would take the answer with it. */
  async #linger(): Promise<void> {
    const client = this.#client;
    if (client.isClosed || client.hasEnded) return;
    await client.endWriting();
    const timer = this.#side.clock.after(LINGER_MS, () => client.close());
    for (let bytes = 0; bytes < LINGER_BYTES;) {
      bytes += client.unreadLength;
      client.skip(client.unreadLength);
      if (!(await client.fill())) break;
    }
    timer.stop();
  }
}
