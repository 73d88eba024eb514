/** One request on its way: to the upstream with its body, and the answer back, each as fast as the slower side reads. */
import type { BodyFrame } from "./body_frame.ts";
import { MalformedFrame, responseFrame } from "./body_frame.ts";
import {
  type HeadField,
  isWebSocketUpgrade,
  keepsAlive,
  MAX_HEAD_BYTES,
  nextHopFields,
  parseResponseHead,
  type RequestHead,
  type ResponseHead,
  without,
  writeRequestHead,
  writeResponseHead,
} from "./http_head.ts";
import { bytesOf, concatBytes, type Socket, SocketGone } from "./socket.ts";

/** Said to the gate, not to the upstream. */
export const PRIORITY_FIELD = "x-hyperswap-priority";
/** Requests that came behind the one under way are read no further than this. */
export const MAX_AHEAD_BYTES = 65_536;

/** How a request ended that was sent upstream. */
export type Ending =
  | { readonly kind: "answered"; readonly status: number; readonly isReusable: boolean }
  | { readonly kind: "client_left" }
  /** `isSilent`: not a byte of an answer had come. */
  | { readonly kind: "upstream_failed"; readonly isSilent: boolean; readonly message: string }
  /** `judge` said so; nothing of the answer was passed on. */
  | { readonly kind: "withheld" };

/** What becomes of an answer whose head was read: passed on, or withheld from the client. */
export type Judge = (head: ResponseHead, link: Socket) => Promise<"pass" | "withhold">;

export interface Passage {
  readonly head: RequestHead;
  /** The request's body as far as it wasn't kept. */
  readonly frame: BodyFrame;
  /** The beginning of the body as it came, where it was read before; null where it wasn't. */
  readonly kept: Uint8Array | null;
  readonly client: Socket;
  /** The client's own connection to the upstream, on which nothing is under way. */
  readonly link: Socket;
  /** Fields that the answer gets besides its own. */
  readonly marks: readonly HeadField[];
  readonly judge?: Judge;
  /** Takes the answer instead, where its beginning has been sent already. */
  readonly finish?: (head: ResponseHead, frame: BodyFrame | "until the end") => Promise<"whole" | "cut" | "left">;
  /** Told when the connection has become a WebSocket's. */
  readonly onTunnel?: () => void;
  /** Called when the client has sent its last byte for good; `run` takes it for gone and passes that on. */
  readonly afterHangUp: (run: () => void) => void;
}

/** Sends the request and passes the answer on. Never rejects but on a defect; both sockets stay the caller's. */
export async function relay(passage: Passage): Promise<Ending> {
  const { client, link } = passage;
  const watch: Watch = { isOver: false, hasLeft: false };
  const leave = () => {
    if (watch.isOver) return;
    watch.hasLeft = true;
    // All of it: an upstream that sees only half of the connection closed may never answer.
    link.close();
  };
  const sent = sendRequest(passage).then((state) => {
    if (state === "left") leave();
    else if (state === "sent") watchClient(client, watch, () => passage.afterHangUp(leave));
    return state;
  });
  const answer = await passAnswer(passage, watch);
  watch.isOver = true;
  if (watch.hasLeft || answer.kind === "client_left") return { kind: "client_left" };
  if (answer.kind !== "answered" || !answer.isReusable) return answer;
  // An answer may overtake the end of its request. What of it is still to come then ends the connection.
  const state = await Promise.race([sent, Promise.resolve("under way")]);
  return { ...answer, isReusable: state === "sent" && !client.hasEnded };
}

/** Whether the client is still there. Once it is over, nobody reads ahead on its connection any more. */
interface Watch {
  isOver: boolean;
  hasLeft: boolean;
}

/** The request as the upstream gets it: everything that isn't said to the gate or about the client's connection. */
export function upstreamHead(head: RequestHead, { isKept }: { readonly isKept: boolean }): RequestHead {
  const fields = nextHopFields(head.fields, { keepsUpgrade: isWebSocketUpgrade(head) });
  // A body that was kept is there already: the client was told to go on.
  return { ...head, fields: without(fields, PRIORITY_FIELD, ...isKept ? ["expect"] : []) };
}

async function sendRequest(passage: Passage): Promise<"sent" | "left" | "stopped"> {
  const { head, frame, kept, client, link } = passage;
  const lines = bytesOf(writeRequestHead(upstreamHead(head, { isKept: kept !== null })));
  try {
    const early = frame.take(client.unread);
    // One write, one packet: a server that reads head and body at once answers at once.
    await link.write(concatBytes(lines, kept ?? new Uint8Array(0), client.unread.subarray(0, early)));
    client.skip(early);
    return await pump(client, link, frame) === "cut" ? "left" : "sent";
  } catch (error) {
    if (error instanceof MalformedFrame) return "left";
    if (!(error instanceof SocketGone)) throw error;
    // The upstream reads no further. It may have answered before that.
    return "stopped";
  }
}

/** Moves a body on, piece by piece. `cut` = its source ended before it did. Rejects when the target is gone. */
export async function pump(from: Socket, to: Socket, frame: BodyFrame | "until the end"): Promise<"whole" | "cut"> {
  while (frame === "until the end" || !frame.isDone) {
    if (from.unreadLength === 0 && !(await from.fill())) return frame === "until the end" ? "whole" : "cut";
    const bytes = from.unread;
    const count = frame === "until the end" ? bytes.length : frame.take(bytes);
    await to.write(bytes.subarray(0, count));
    from.skip(count);
  }
  return "whole";
}

/** Calls `onEnd` once the client has sent its last byte. */
async function watchClient(client: Socket, watch: Watch, onEnd: () => void): Promise<void> {
  while (!watch.isOver && client.unreadLength < MAX_AHEAD_BYTES) {
    if (await client.fill()) continue;
    if (!watch.isOver) onEnd();
    return;
  }
}

async function passAnswer(passage: Passage, watch: Watch): Promise<Ending> {
  const { client, link, head: request } = passage;
  const failed = (message: string, isSilent = false): Ending =>
    watch.hasLeft ? { kind: "client_left" } : { kind: "upstream_failed", isSilent, message };
  try {
    for (let isFirst = true;; isFirst = false) {
      const text = await link.takeHead(MAX_HEAD_BYTES);
      if (text === "ended") {
        return failed("It closed the connection before it answered", isFirst && link.unreadLength === 0);
      }
      const head = text === "too long" ? null : parseResponseHead(text);
      const frame = head === null ? null : responseFrame(head, request);
      if (head === null || frame === null) return failed("It answered something that is not HTTP");
      if (head.status === 101) {
        // From here on both directions are read for good.
        watch.isOver = true;
        return await tunnel(passage, head);
      }
      if (head.status < 200) {
        if (request.version === "HTTP/1.1" && passage.finish === undefined) await client.write(answerHead(head, []));
        continue;
      }
      if (await passage.judge?.(head, link) === "withhold") {
        return watch.hasLeft ? { kind: "client_left" } : { kind: "withheld" };
      }
      const state = passage.finish === undefined
        ? await passBody(passage, head, frame)
        : await passage.finish(head, frame);
      if (state === "left") return { kind: "client_left" };
      if (state === "cut") return failed("It broke off in the middle of its answer");
      const isReusable = frame !== "until the end" && keepsAlive(request) && keepsAlive(head);
      return { kind: "answered", status: head.status, isReusable };
    }
  } catch (error) {
    if (error instanceof MalformedFrame) return failed(`It answered with ${error.message}`);
    if (!(error instanceof SocketGone)) throw error;
    // Only the client is written to here.
    link.close();
    return { kind: "client_left" };
  }
}

async function passBody(
  { client, link, marks }: Passage,
  head: ResponseHead,
  frame: BodyFrame | "until the end",
): Promise<"whole" | "cut"> {
  const begun = link.unread;
  const count = frame === "until the end" ? begun.length : frame.take(begun);
  await client.write(concatBytes(answerHead(head, marks), begun.subarray(0, count)));
  link.skip(count);
  return await pump(link, client, frame);
}

function answerHead(head: ResponseHead, marks: readonly HeadField[]): Uint8Array<ArrayBuffer> {
  const fields = [...nextHopFields(head.fields, { keepsUpgrade: head.status === 101 }), ...marks];
  return bytesOf(writeResponseHead({ ...head, fields }));
}

/** After an upgrade the gate understands nothing any more: bytes go both ways until one side ends. */
async function tunnel({ client, link, head: request, onTunnel }: Passage, head: ResponseHead): Promise<Ending> {
  if (!isWebSocketUpgrade(request)) {
    return { kind: "upstream_failed", isSilent: false, message: "It switched protocols unasked" };
  }
  await client.write(answerHead(head, []));
  onTunnel?.();
  const ends = [pump(client, link, "until the end"), pump(link, client, "until the end")];
  const over = () => {
    client.close();
    link.close();
  };
  await Promise.all(ends.map((end) => end.then(over, over)));
  return { kind: "answered", status: 101, isReusable: false };
}
