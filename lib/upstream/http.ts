import type { Clock } from "../model/ports.ts";
import { errorText, InBandError } from "./error_text.ts";
import { MalformedBody } from "./json_fields.ts";
import { clientUrl } from "./locality.ts";
import { UpstreamError, type UpstreamErrorKind } from "./upstream_error.ts";

/**
 * The fetch behind both clients. Deno's fetch has no time-out of its own for the response head (a cold load sends
 * nothing until it ends), pools connections, and closes rather than half-closes when it gives up: Ollama takes a
 * closed connection as "stop", and never answers one that is closed only on our side.
 */
export interface HttpRequest {
  readonly method: "GET" | "POST";
  /** Begins with "/"; may carry a query. */
  readonly path: string;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** For the whole exchange, body included. */
  readonly deadlineMs: number;
  readonly signal: AbortSignal;
  /** Completes "Cannot …" in the error. */
  readonly action: string;
  /** Default 64 MiB: /queue carries whole graphs. */
  readonly maxBytes?: number;
}

export interface HttpReply {
  readonly url: string;
  readonly status: number;
  /** Empty for replies without a body; some carry no Content-Type either. */
  readonly text: string;
  /** From the call to the last byte. */
  readonly tookMs: number;
}

export interface HttpOrigin {
  /** The base URL, cleaned (no trailing slash). */
  readonly url: string;
  /** Resolves for any 2xx; everything else is an UpstreamError. */
  send(request: HttpRequest): Promise<HttpReply>;
  /** Sends and parses. A MalformedBody or InBandError from `parse` becomes an UpstreamError. */
  ask<T>(request: HttpRequest, parse: (text: string) => T): Promise<T>;
}

const DEFAULT_MAX_BYTES = 64 * 2 ** 20;
/** Error bodies are for people. */
const MAX_ERROR_BYTES = 64 * 2 ** 10;

/** Opens nothing: connections are made per call and pooled by the runtime. */
export function httpOrigin(options: { readonly url: string; readonly clock: Clock }): HttpOrigin {
  const base = clientUrl(options.url);
  const send = (request: HttpRequest) => exchange(`${base}${request.path}`, request, options.clock);
  return {
    url: base,
    send,
    async ask(request, parse) {
      const reply = await send(request);
      return parseReply(reply, request, parse);
    },
  };
}

function parseReply<T>(reply: HttpReply, request: HttpRequest, parse: (text: string) => T): T {
  try {
    return parse(reply.text);
  } catch (cause) {
    const isInBand = cause instanceof InBandError;
    if (!isInBand && !(cause instanceof MalformedBody)) throw cause;
    const { url, status } = reply;
    const body = isInBand ? cause.message : reply.text.slice(0, MAX_ERROR_BYTES);
    const kind = isInBand ? "in_band" : "protocol";
    throw new UpstreamError(request.action, { url, kind, status, reason: cause.message, body, cause });
  }
}

async function exchange(url: string, request: HttpRequest, clock: Clock): Promise<HttpReply> {
  const startedAtMs = clock.monotonicMs();
  const hangUp = new AbortController();
  const onAbort = () => hangUp.abort();
  // A timer of our own instead of Clock.deadline: it is stopped when the answer is there, so that the 300 s of a load
  // that took two don't stay behind.
  let isOverdue = false;
  const deadline = clock.after(request.deadlineMs, () => {
    isOverdue = true;
    hangUp.abort();
  });
  request.signal.addEventListener("abort", onAbort, { once: true });
  try {
    if (request.signal.aborted) hangUp.abort();
    return await fetchText(url, request, hangUp.signal, () => clock.monotonicMs() - startedAtMs);
  } catch (cause) {
    if (cause instanceof UpstreamError) throw cause;
    const { kind, reason } = request.signal.aborted
      ? { kind: "aborted" as const, reason: "cancelled by the caller" }
      : isOverdue
      ? { kind: "timeout" as const, reason: `no complete answer within ${request.deadlineMs} ms` }
      : classifyFetchError(cause);
    throw new UpstreamError(request.action, { url, kind, reason, cause });
  } finally {
    deadline.stop();
    request.signal.removeEventListener("abort", onAbort);
  }
}

async function fetchText(
  url: string,
  request: HttpRequest,
  signal: AbortSignal,
  elapsedMs: () => number,
): Promise<HttpReply> {
  const response = await fetch(url, {
    method: request.method,
    // A redirect is no answer to an API call (Ollama sends one for a trailing slash).
    redirect: "manual",
    signal,
    ...(request.body === undefined
      ? {}
      : { body: JSON.stringify(request.body), headers: { "content-type": "application/json" } }),
  });
  const isOk = response.status >= 200 && response.status < 300;
  const { text, isCut } = await readText(response, isOk ? request.maxBytes ?? DEFAULT_MAX_BYTES : MAX_ERROR_BYTES);
  if (!isOk) {
    throw new UpstreamError(request.action, {
      url,
      kind: "http",
      status: response.status,
      reason: `server answered ${response.status}: ${errorText(text) ?? "(no text)"}`,
      body: text,
    });
  }
  if (isCut) {
    const limit = request.maxBytes ?? DEFAULT_MAX_BYTES;
    const reason = `body is larger than ${limit} bytes`;
    throw new UpstreamError(request.action, { url, kind: "too_large", status: response.status, reason });
  }
  return { url, status: response.status, text, tookMs: elapsedMs() };
}

/** Reads at most `maxBytes`; the rest is hung up on. */
async function readText(response: Response, maxBytes: number): Promise<{ text: string; isCut: boolean }> {
  if (response.body === null) return { text: "", isCut: false };
  const decoder = new TextDecoder();
  let text = "";
  let bytes = 0;
  for await (const chunk of response.body) {
    bytes += chunk.byteLength;
    if (bytes > maxBytes) return { text, isCut: true };
    text += decoder.decode(chunk, { stream: true });
  }
  return { text: text + decoder.decode(), isCut: false };
}

const FETCH_ERRORS: readonly (readonly [RegExp, UpstreamErrorKind, string])[] = [
  [/connection refused/i, "refused", "connection refused"],
  [/dns error|failed to lookup/i, "unreachable", "host name not found"],
  [/no route to host|network is unreachable|are blocked/i, "unreachable", "no way to that address"],
  [/connection reset/i, "closed", "connection reset"],
  [
    /closed before message completed|reading a body|broken pipe|unexpected eof|incompletemessage/i,
    "closed",
    "connection closed before the answer was complete",
  ],
  [/invalid http|parsed|invalid chunk/i, "protocol", "answer is not HTTP"],
];

/** The runtime has no codes, only texts; Deno 2.9 keeps the telling one in the cause. */
function classifyFetchError(error: unknown): { kind: UpstreamErrorKind; reason: string } {
  const text = error instanceof Error ? `${error.message} ${error.cause ?? ""}` : String(error);
  for (const [pattern, kind, reason] of FETCH_ERRORS) if (pattern.test(text)) return { kind, reason };
  return { kind: "closed", reason: error instanceof Error ? error.message : String(error) };
}
