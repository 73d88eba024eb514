/** The bodies of held requests, in memory and nowhere else: to know what is asked for, and to ask a second time. */
import type { Clock } from "../model/ports.ts";
import { type BodyFrame, LengthFrame, MalformedFrame } from "./body_frame.ts";
import { concatBytes, type Socket } from "./socket.ts";

/** A body of its own, and all of them together. What is longer passes as it comes, and is sent only once. */
export const MAX_KEPT_BYTES = 32 * 2 ** 20;
const MAX_KEPT_TOGETHER_BYTES = 256 * 2 ** 20;
/** Of a longer one: enough to find the model's name in. */
const PREFIX_BYTES = 65_536;
/** A client that sends nothing for so long has no request to hold. */
const STALL_MS = 60_000;

export interface KeptBody {
  /** As it came, chunk frames included. */
  readonly raw: Uint8Array<ArrayBuffer>;
  /** What it says. */
  readonly content: Uint8Array<ArrayBuffer>;
  /** False: the rest is still to be read from the client. */
  readonly isWhole: boolean;
}

/** How much all held bodies of a gate take. */
export class KeptBytes {
  readonly #limit: number;
  #taken = 0;

  constructor(limit: number = MAX_KEPT_TOGETHER_BYTES) {
    this.#limit = limit;
  }

  get taken(): number {
    return this.#taken;
  }

  take(count: number): boolean {
    if (this.#taken + count > this.#limit) return false;
    this.#taken += count;
    return true;
  }

  giveBack(count: number): void {
    this.#taken -= count;
  }
}

/** Reads a held request's body as far as it may be kept. Whoever gets it gives `raw.length` back. */
export async function keepBody(
  { client, frame, kept, clock }: {
    readonly client: Socket;
    readonly frame: BodyFrame;
    readonly kept: KeptBytes;
    readonly clock: Clock;
  },
): Promise<KeptBody | "left" | "malformed" | "stalled"> {
  const raw: Uint8Array[] = [];
  const content: Uint8Array[] = [];
  const isTooLong = frame instanceof LengthFrame && frame.left > MAX_KEPT_BYTES;
  const limit = isTooLong ? PREFIX_BYTES : MAX_KEPT_BYTES;
  let length = 0;
  const dropped = <T>(word: T): T => {
    kept.giveBack(length);
    return word;
  };
  while (!frame.isDone && length < limit) {
    if (client.unreadLength === 0) {
      const word = await fillWithin(client, clock);
      if (word !== "filled") return dropped(word);
    }
    const piece = client.unread.slice(0, limit - length);
    if (!kept.take(piece.length)) break;
    length += piece.length;
    try {
      const count = frame.take(piece, (part) => content.push(part));
      raw.push(piece.subarray(0, count));
      client.skip(count);
      kept.giveBack(piece.length - count);
      length -= piece.length - count;
    } catch (error) {
      if (!(error instanceof MalformedFrame)) throw error;
      return dropped("malformed");
    }
  }
  return { raw: concatBytes(...raw), content: concatBytes(...content), isWhole: frame.isDone };
}

async function fillWithin(client: Socket, clock: Clock): Promise<"filled" | "left" | "stalled"> {
  const stalled = Promise.withResolvers<"stalled">();
  const timer = clock.after(STALL_MS, () => stalled.resolve("stalled"));
  const filled = client.fill().then((hasMore) => hasMore ? "filled" as const : "left" as const);
  try {
    return await Promise.race([filled, stalled.promise]);
  } finally {
    timer.stop();
  }
}
