/**
 * Signs of life for a held client that reads server-sent events: comments, which the format tells readers to ignore.
 * They begin the answer before the upstream's is known, so they come only once an idle time-out is nearer than an early
 * refusal is useful; what the upstream then refuses goes into the stream, as its own routes do with late errors. No
 * other format has such a thing: an NDJSON reader takes an empty line for broken JSON, and of the interim statuses
 * some clients take 102 for the answer and others 100 for an error.
 */
import type { Clock, Timer } from "../model/ports.ts";
import { type BodyFrame, ChunkedFrame } from "./body_frame.ts";
import { type ResponseHead, valueOf } from "./http_head.ts";
import { pump } from "./relay.ts";
import { concatBytes, type Socket, SocketGone } from "./socket.ts";

/** Browsers, proxies and clients give up on silence after 30 s and more. */
const FIRST_BEAT_MS = 15_000;
const BEAT_MS = 10_000;
const MAX_ERROR_BYTES = 65_536;

const HEAD = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n" +
  "X-HyperSwap-Gate: held\r\nTransfer-Encoding: chunked\r\n\r\n";

export class EarlyStream {
  readonly #client: Socket;
  readonly #isAnthropic: boolean;
  readonly #words: () => string;
  #timer: Timer;
  #hasBegun = false;
  #lastWrite: Promise<void> = Promise.resolve();

  /** `words`: what it waits for, asked at each beat. */
  constructor(
    { client, clock, path, words }: {
      readonly client: Socket;
      readonly clock: Clock;
      readonly path: string;
      readonly words: () => string;
    },
  ) {
    this.#client = client;
    this.#isAnthropic = path === "/v1/messages";
    this.#words = words;
    this.#timer = clock.after(FIRST_BEAT_MS, () => {
      this.#hasBegun = true;
      this.#write(HEAD);
      this.#beat();
      this.#timer = clock.every(BEAT_MS, () => this.#beat());
    });
  }

  /** True: the client has the beginning of an answer, and gets the rest through `finish` or `fail`. */
  get hasBegun(): boolean {
    return this.#hasBegun;
  }

  /** No more beats; resolves when the last one is written. */
  async stop(): Promise<void> {
    this.#timer.stop();
    await this.#lastWrite;
  }

  /** The upstream's answer behind the comments. */
  async finish(
    link: Socket,
    head: ResponseHead,
    frame: BodyFrame | "until the end",
  ): Promise<"whole" | "cut" | "left"> {
    const isStream = head.status === 200 &&
      (valueOf(head.fields, "content-type") ?? "").startsWith("text/event-stream");
    if (isStream && frame instanceof ChunkedFrame) return await pump(link, this.#client, frame);
    const content = await readContent(link, frame);
    await this.fail(content === "" ? `The server answered ${head.status}` : content);
    return "whole";
  }

  /** Ends the stream with an error event. `error`: the JSON of one, or its message. */
  async fail(error: string): Promise<void> {
    const json = isJson(error)
      ? error.trim().replaceAll(/\s*\n\s*/g, " ")
      : JSON.stringify({ error: { message: error } });
    this.#write(chunk(`${this.#isAnthropic ? "event: error\n" : ""}data: ${json}\n\n`) + "0\r\n\r\n");
    await this.#lastWrite;
  }

  #beat(): void {
    this.#write(chunk(`: ${this.#words().replaceAll(/[\r\n]+/g, " ")}\n\n`));
  }

  #write(text: string): void {
    this.#lastWrite = this.#lastWrite.then(() => this.#client.write(new TextEncoder().encode(text))).catch((error) => {
      // Whoever watches the client learns that it is gone.
      if (!(error instanceof SocketGone)) throw error;
    });
  }
}

function chunk(text: string): string {
  return `${new TextEncoder().encode(text).length.toString(16)}\r\n${text}\r\n`;
}

function isJson(text: string): boolean {
  try {
    return typeof JSON.parse(text) === "object";
  } catch {
    return false;
  }
}

async function readContent(link: Socket, frame: BodyFrame | "until the end"): Promise<string> {
  const content: Uint8Array[] = [];
  let length = 0;
  while (length < MAX_ERROR_BYTES && (frame === "until the end" || !frame.isDone)) {
    if (link.unreadLength === 0 && !(await link.fill())) break;
    const piece = link.unread.slice();
    length += piece.length;
    if (frame === "until the end") content.push(piece);
    link.skip(frame === "until the end" ? piece.length : frame.take(piece, (part) => content.push(part)));
  }
  return new TextDecoder().decode(concatBytes(...content));
}
