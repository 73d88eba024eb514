import { createHash } from "node:crypto";
import type { ByteSource } from "./byte_source.ts";
import { concat, type Exchange, type Upgraded, writeAll } from "./exchange.ts";

/** RFC 6455: what a server appends to the client's key before it hashes it. */
const ACCEPT_SALT = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const OPCODES = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;
/** aiohttp's limit for one message. */
const MAX_MESSAGE_BYTES = 4 * 2 ** 20;

export interface WireSocketEvents {
  readonly onText: (text: string) => void;
  /** Once, however it ended. */
  readonly onEnd: () => void;
}

interface Frame {
  readonly opcode: number;
  readonly isFinal: boolean;
  readonly payload: Uint8Array;
}

/** The server's end of a WebSocket. Frames go out in the order they were handed over. */
export class WireSocket {
  readonly #parts: Upgraded;
  readonly #events: WireSocketEvents;
  #lastWrite: Promise<void> = Promise.resolve();
  #isOpen = true;

  private constructor(parts: Upgraded, events: WireSocketEvents) {
    this.#parts = parts;
    this.#events = events;
  }

  /** Answers the upgrade; null when the request is none, and then nothing was answered. */
  static async accept(exchange: Exchange, events: WireSocketEvents): Promise<WireSocket | null> {
    const key = exchange.header("sec-websocket-key");
    if (exchange.header("upgrade")?.toLowerCase() !== "websocket" || key === null) return null;
    const accept = createHash("sha1").update(key + ACCEPT_SALT).digest("base64");
    const parts = await exchange.upgrade([
      ["Upgrade", "websocket"],
      ["Connection", "upgrade"],
      ["Sec-WebSocket-Accept", accept],
    ]);
    const socket = new WireSocket(parts, events);
    void socket.#listen();
    return socket;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** Resolves when the kernel has taken the frame: a client that doesn't read makes this wait. */
  send(data: string | Uint8Array): Promise<void> {
    const isText = typeof data === "string";
    const payload = isText ? new TextEncoder().encode(data) : data;
    return this.#write(isText ? OPCODES.text : OPCODES.binary, payload);
  }

  /** Ends the connection without a close frame, as a dying process does. */
  drop(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#parts.drop();
    this.#events.onEnd();
  }

  #write(opcode: number, payload: Uint8Array): Promise<void> {
    this.#lastWrite = this.#lastWrite.then(async () => {
      if (!this.#isOpen) return;
      this.#parts.onWrite();
      try {
        await writeAll(this.#parts.conn, encodeFrame(opcode, payload));
      } catch {
        // The client is gone.
        this.drop();
      }
      this.#parts.onWrite();
    });
    return this.#lastWrite;
  }

  async #listen(): Promise<void> {
    let message: Uint8Array = new Uint8Array(0);
    let isText = false;
    while (this.#isOpen) {
      const frame = await readFrame(this.#parts.source);
      if (frame === null || frame.opcode === OPCODES.close) {
        if (frame !== null) await this.#write(OPCODES.close, frame.payload.subarray(0, 2));
        break;
      }
      if (frame.opcode === OPCODES.ping) await this.#write(OPCODES.pong, frame.payload);
      if (frame.opcode > OPCODES.binary) continue;
      if (frame.opcode !== OPCODES.continuation) isText = frame.opcode === OPCODES.text;
      message = frame.opcode === OPCODES.continuation ? concat(message, frame.payload) : frame.payload;
      if (message.length > MAX_MESSAGE_BYTES) {
        await this.#write(OPCODES.close, new Uint8Array([1009 >> 8, 1009 & 0xff]));
        break;
      }
      if (frame.isFinal && isText) this.#events.onText(new TextDecoder().decode(message));
    }
    this.drop();
  }
}

function encodeFrame(opcode: number, payload: Uint8Array): Uint8Array {
  const { length } = payload;
  const head = length < 126 ? new Uint8Array(2) : length < 65_536 ? new Uint8Array(4) : new Uint8Array(10);
  const view = new DataView(head.buffer);
  view.setUint8(0, 0x80 | opcode);
  view.setUint8(1, length < 126 ? length : length < 65_536 ? 126 : 127);
  if (head.length === 4) view.setUint16(2, length);
  if (head.length === 10) view.setBigUint64(2, BigInt(length));
  return concat(head, payload);
}

/** Null when the connection ended. Client frames are masked; an unmasked one ends the connection too. */
async function readFrame(source: ByteSource): Promise<Frame | null> {
  const head = await source.take(2);
  const [first = 0, second = 0] = head ?? [];
  if (head === null || (second & 0x80) === 0) return null;
  let length = second & 0x7f;
  if (length >= 126) {
    const wide = await source.take(length === 126 ? 2 : 8);
    if (wide === null) return null;
    const view = new DataView(wide.buffer);
    length = wide.length === 2 ? view.getUint16(0) : Number(view.getBigUint64(0));
  }
  const mask = await source.take(4);
  const payload = await source.take(length);
  if (mask === null || payload === null) return null;
  for (let at = 0; at < payload.length; at += 1) payload[at] = (payload[at] ?? 0) ^ (mask[at % 4] ?? 0);
  return { opcode: first & 0x0f, isFinal: (first & 0x80) !== 0, payload };
}
