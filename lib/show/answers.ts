/** Answers as HTTP: JSON with its length, an ETag where asking again is worth less, gzip where it is worth more. */
import { createHash } from "node:crypto";
import { FAILURES } from "../model/failure.ts";
import { errorBody } from "../operations/outcome.ts";
import type { Outcome, Refused } from "../operations/outcome.ts";
import { acceptsGzip, gzip, matches } from "./assets.ts";

/** Below this neither a 304 nor gzip saves more than its headers cost. */
const MIN_WORTH_BYTES = 1_024;

const encoder = new TextEncoder();

/** What an operation came to. A large answer to a GET is only sent when it is another than the caller has. */
export async function outcomeResponse(outcome: Outcome, request: Request): Promise<Response> {
  if (!outcome.ok) return errorResponse(outcome);
  if (outcome.accepted) {
    const response = json(outcome.value, 202);
    response.headers.set("location", `/api/runs/${String(outcome.value["id"])}`);
    return response;
  }
  const bytes = encoder.encode(JSON.stringify(outcome.value));
  const isRead = request.method === "GET" || request.method === "HEAD";
  if (!isRead || bytes.byteLength < MIN_WORTH_BYTES) return jsonOf(bytes, 200);
  const etag = `W/"${createHash("sha1").update(bytes).digest("base64url")}"`;
  // `private`: what one caller may read another may not, whatever cache stands between.
  const headers = { etag, "cache-control": "private, no-cache", "vary": "accept-encoding, authorization, cookie" };
  if (matches(request.headers.get("if-none-match"), etag.slice(2))) return new Response(null, { status: 304, headers });
  return jsonOf(acceptsGzip(request) ? await gzip(bytes) : bytes, 200, {
    ...headers,
    ...(acceptsGzip(request) ? { "content-encoding": "gzip" } : {}),
  });
}

export function errorResponse(refusal: Refused): Response {
  const response = json(errorBody(refusal), FAILURES[refusal.code].http);
  if (refusal.code === "unauthorized") response.headers.set("www-authenticate", 'Bearer realm="hyperswap"');
  return response;
}

export function json(body: unknown, status: number): Response {
  return jsonOf(encoder.encode(JSON.stringify(body)), status);
}

function jsonOf(
  bytes: Uint8Array<ArrayBuffer>,
  status: number,
  headers: Readonly<Record<string, string>> = {},
): Response {
  return new Response(bytes, {
    status,
    headers: {
      "content-type": "application/json; charset=utf-8",
      // Said here because a HEAD's answer has no body to take it from.
      "content-length": String(bytes.byteLength),
      "cache-control": "no-store",
      ...headers,
    },
  });
}
