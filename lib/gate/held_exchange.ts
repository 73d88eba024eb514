/**
 * A request that makes its tenant take VRAM: its body is read and kept, the arbiter is asked, and only on its word is
 * anything sent upstream.
 */
import type { GateOutcome, PassReason, Ticket, Verdict } from "../model/admission.ts";
import type { BodyFrame } from "./body_frame.ts";
import type { DoorSide } from "./door_side.ts";
import { EarlyStream } from "./early_stream.ts";
import { type HeadField, keepsAlive, type RequestHead, tokensOf, valueOf } from "./http_head.ts";
import { keepBody, type KeptBody } from "./kept_body.ts";
import { memoryRefusal } from "./memory_refusal.ts";
import { errorBody, type OwnAnswer, ownAnswer } from "./own_answer.ts";
import { plainContent } from "./plain_content.ts";
import { type Ending, MAX_AHEAD_BYTES, PRIORITY_FIELD, relay } from "./relay.ts";
import { type RequestFacts, requestFacts } from "./request_facts.ts";
import { bytesOf, type Socket } from "./socket.ts";
import { Unreached } from "./upstream_link.ts";

export interface HeldRequest {
  readonly side: DoorSide;
  readonly client: Socket;
  readonly head: RequestHead;
  readonly frame: BodyFrame;
  /** As heldPath read it. */
  readonly path: string;
  /** The connection that the client's requests go over, opened when there is none. */
  readonly connect: (signal: AbortSignal) => Promise<Socket>;
  /** Closes that connection: the next one asked for is a fresh one. */
  readonly dropLink: () => void;
}

/** Carries it through to its end. True: another request may follow on this connection. */
export async function holdRequest(request: HeldRequest): Promise<boolean> {
  const { side, client, head, frame } = request;
  const arrivedAtMs = side.clock.monotonicMs();
  // Its sender waits for this before it sends what has to be known.
  if (tokensOf(head.fields, "expect").includes("100-continue") && head.version === "HTTP/1.1") {
    await client.write(bytesOf("HTTP/1.1 100 Continue\r\n\r\n"));
  }
  const body = await keepBody({ client, frame, kept: side.kept, clock: side.clock });
  if (body === "left") return false;
  if (body === "malformed") {
    return await answer(request, { status: 400, message: "The body's chunks can't be read" }, false);
  }
  if (body === "stalled") return await answer(request, { status: 408, message: "The body didn't come" }, false);
  const presence = watchPresence(client);
  try {
    const plain = await plainContent(body.content, head.fields);
    const facts = requestFacts(plain, { tenant: side.tenant, path: request.path });
    if (facts.kills !== null) return await answer(request, { status: 400, message: facts.kills }, body.isWhole);
    if (!facts.takesMemory) return await send(request, { body, marks: [], ticket: null, early: null, presence });
    return await offer(request, { body, facts, arrivedAtMs, presence });
  } finally {
    presence.stopWatching();
    side.kept.giveBack(body.raw.length);
  }
}

async function offer(
  request: HeldRequest,
  { body, facts, arrivedAtMs, presence }: {
    readonly body: KeptBody;
    readonly facts: RequestFacts;
    readonly arrivedAtMs: number;
    readonly presence: Presence;
  },
): Promise<boolean> {
  const { side, client, head, path } = request;
  const { model, contextLength, files, isEventStream } = facts;
  let words = "held";
  const mayBeat = isEventStream && head.version === "HTTP/1.1";
  const early = mayBeat ? new EarlyStream({ client, clock: side.clock, path, words: () => words }) : null;
  const priority = valueOf(head.fields, PRIORITY_FIELD);
  const asked = { tenant: side.tenant, path, model, contextLength, files, priority, arrivedAtMs };
  const verdict = await side.admission.offer(asked, {
    signal: presence.signal,
    held: ({ reason, position }) => words = `held: ${reason}; ${position} before it`,
  });
  await early?.stop();
  if (verdict.kind === "lapsed") return false;
  if (verdict.kind === "refused") return await refuse(request, verdict, { body, early });
  return await send(request, {
    body,
    presence,
    marks: marksOf(verdict),
    ticket: verdict.ticket,
    early: early?.hasBegun === true ? early : null,
  });
}

/** Whether the client is still there; what it sends meanwhile waits. */
interface Presence {
  /** Aborts when the client ends its side, whole or half: both upstreams take that for leaving. */
  readonly signal: AbortSignal;
  /** As far as is known this moment; a client that isn't is reported to the signal at once. */
  isThere(): boolean;
  stopWatching(): void;
}

function watchPresence(client: Socket): Presence {
  const left = new AbortController();
  let isStopped = false;
  const isThere = () => {
    if (client.hasEnded) left.abort(new DOMException("The client left", "AbortError"));
    return !client.hasEnded;
  };
  const watch = async () => {
    // Requests that are piled up behind this one say that it is there.
    while (!isStopped && client.unreadLength < MAX_AHEAD_BYTES && await client.fill());
    if (!isStopped) isThere();
  };
  void watch();
  return { signal: left.signal, isThere, stopWatching: () => isStopped = true };
}

function marksOf({ heldMs, reason, isOpen }: Extract<Verdict, { kind: "pass" }>): readonly HeadField[] {
  if (isOpen) return [...heldMarks(heldMs, reason), { name: "X-HyperSwap-Gate", value: "open" }];
  return heldMs > 0 ? heldMarks(heldMs, reason) : [];
}

function heldMarks(heldMs: number, reason: PassReason | string): readonly HeadField[] {
  const words = reason.replaceAll(/[^\x20-\x7e]+/g, " ");
  return [
    { name: "X-HyperSwap-Held-Ms", value: String(Math.round(heldMs)) },
    { name: "X-HyperSwap-Reason", value: words },
  ];
}

async function refuse(
  request: HeldRequest,
  { status, retryAfterS, message }: Extract<Verdict, { kind: "refused" }>,
  { body, early }: { readonly body: KeptBody; readonly early: EarlyStream | null },
): Promise<boolean> {
  if (early?.hasBegun === true) {
    await early.fail(errorBody(request.side.tenant, request.path, { status, message }));
    return false;
  }
  const fields = retryAfterS === null ? [] : [{ name: "Retry-After", value: String(retryAfterS) }];
  return await answer(request, { status, message, fields }, body.isWhole);
}

interface Sending {
  readonly body: KeptBody;
  readonly marks: readonly HeadField[];
  /** Null: it wasn't offered. */
  readonly ticket: Ticket | null;
  readonly presence: Presence;
  readonly early: EarlyStream | null;
}

/** Sends it, and once more if memory was what was missing and could be had back. */
async function send(request: HeldRequest, { body, marks, ticket, early, presence }: Sending): Promise<boolean> {
  let link: Socket;
  try {
    // While it was held its server may have been started anew: the connection from before proves nothing.
    if (marks.length > 0) request.dropLink();
    link = await request.connect(presence.signal);
  } catch (error) {
    return await unreached(request, { error, ticket, early, presence });
  }
  // Granted, but is the caller still there?
  if (!presence.isThere() || ticket?.take() === false) return false;
  presence.stopWatching();
  let refusal: string | null = null;
  const mayRetry = ticket !== null && body.isWhole && request.side.tenant === "ollama";
  const first = await relayKept(request, { body, marks, link, early }, async (message) => {
    refusal = message;
    return mayRetry ? await retryMarks(ticket, message) : null;
  });
  const last = first.again === null ? first.ending : await sendAgain(request, { body, marks: first.again, early });
  ticket?.ended(outcomeOf(last, refusal));
  return last.kind === "answered" && last.isReusable;
}

async function unreached(
  request: HeldRequest,
  { error, ticket, early, presence }: Pick<Sending, "ticket" | "early" | "presence"> & { readonly error: unknown },
): Promise<boolean> {
  if (!presence.isThere()) return false;
  if (!(error instanceof Unreached)) throw error;
  const { message } = error;
  if (ticket?.take() === true) ticket.ended({ kind: "upstream_failed", message });
  if (early === null) return await answer(request, { status: 502, message }, false);
  await early.fail(errorBody(request.side.tenant, request.path, { status: 502, message }));
  return false;
}

/** The marks of a second try, when memory was had back for it. */
async function retryMarks(ticket: Ticket, message: string): Promise<readonly HeadField[] | null> {
  const verdict = await ticket.outOfMemory(message);
  return verdict.kind === "retry" ? heldMarks(verdict.heldMs, verdict.reason) : null;
}

async function sendAgain(request: HeldRequest, parts: Omit<Sending, "ticket" | "presence">): Promise<Ending> {
  request.dropLink();
  const presence = watchPresence(request.client);
  try {
    const link = await request.connect(presence.signal);
    presence.stopWatching();
    if (!presence.isThere()) return { kind: "client_left" };
    return (await relayKept(request, { ...parts, link }, null)).ending;
  } catch (error) {
    if (presence.signal.aborted) return { kind: "client_left" };
    if (!(error instanceof Unreached)) throw error;
    const { message } = error;
    if (parts.early === null) await answer(request, { status: 502, message }, false);
    else await parts.early.fail(errorBody(request.side.tenant, request.path, { status: 502, message }));
    return { kind: "upstream_failed", isSilent: true, message };
  }
}

async function relayKept(
  request: HeldRequest,
  { body, marks, link, early }: Omit<Sending, "ticket" | "presence"> & { readonly link: Socket },
  onRefusal: ((message: string) => Promise<readonly HeadField[] | null>) | null,
): Promise<{ readonly ending: Ending; readonly again: readonly HeadField[] | null }> {
  const { client, head, frame } = request;
  let again: readonly HeadField[] | null = null;
  const ending = await relay({
    head,
    frame,
    kept: body.raw,
    client,
    link,
    marks,
    // Who leaves wants it stopped, now: generating goes on for as long as somebody listens.
    afterHangUp: (run) => run(),
    ...(onRefusal === null ? {} : {
      judge: async (answered: Parameters<typeof memoryRefusal>[0], from: Socket) => {
        const message = await memoryRefusal(answered, { link: from, method: head.method });
        if (message !== null) again = await onRefusal(message);
        return again === null ? "pass" as const : "withhold" as const;
      },
    }),
    ...(early === null ? {} : { finish: (answered, rest) => early.finish(link, answered, rest) }),
  });
  return { ending, again: ending.kind === "withheld" ? again : null };
}

function outcomeOf(ending: Ending, refusal: string | null): GateOutcome {
  switch (ending.kind) {
    case "answered":
      return { kind: "answered", status: ending.status };
    case "client_left":
      return { kind: "client_left" };
    case "upstream_failed":
      return { kind: "upstream_failed", message: ending.message };
    case "withheld":
      return { kind: "upstream_failed", message: refusal ?? "It refused" };
  }
}

/** The gate's own word. `isRead`: nothing of the request is left on the connection. */
async function answer({ side, client, path, head }: HeldRequest, word: OwnAnswer, isRead: boolean): Promise<boolean> {
  const closes = !isRead || !keepsAlive(head);
  await client.write(ownAnswer(word, { tenant: side.tenant, path, closes }));
  return !closes;
}
