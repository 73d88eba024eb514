/** What the gate answers itself, in the words of the upstream that it stands before: clients know that shape. */
import type { Tenant } from "../model/tenants.ts";
import type { HeadField } from "./http_head.ts";

export interface OwnAnswer {
  readonly status: number;
  readonly message: string;
  readonly fields?: readonly HeadField[];
}

const PHRASES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  405: "Method Not Allowed",
  408: "Request Timeout",
  429: "Too Many Requests",
  431: "Request Header Fields Too Large",
  502: "Bad Gateway",
  503: "Service Unavailable",
};

/** What OpenAI's and Anthropic's clients tell errors apart by. */
const KINDS: Readonly<Record<number, readonly [openai: string, anthropic: string]>> = {
  400: ["invalid_request_error", "invalid_request_error"],
  429: ["rate_limit_error", "rate_limit_error"],
};

/** An error's JSON on this route. */
export function errorBody(tenant: Tenant, path: string, { status, message }: OwnAnswer): string {
  const [openai, anthropic] = KINDS[status] ?? ["api_error", "api_error"];
  if (tenant === "comfyui") {
    const type = status === 400 ? "invalid_prompt" : status === 502 ? "upstream_unreachable" : "gate_refused";
    return JSON.stringify({ error: { type, message, details: message, extra_info: {} }, node_errors: {} });
  }
  if (path === "/v1/messages") {
    return JSON.stringify({ type: "error", error: { type: anthropic, message }, request_id: null });
  }
  if (path.startsWith("/v1/")) {
    return JSON.stringify({ error: { message, type: openai, param: null, code: null } });
  }
  return JSON.stringify({ error: message });
}

/** The whole answer, framed by its length. `closes`: no other follows on this connection. */
export function ownAnswer(
  answer: OwnAnswer,
  { tenant, path, closes }: { readonly tenant: Tenant; readonly path: string; readonly closes: boolean },
): Uint8Array<ArrayBuffer> {
  const encoder = new TextEncoder();
  const body = encoder.encode(errorBody(tenant, path, answer));
  const lines = [
    `HTTP/1.1 ${answer.status} ${PHRASES[answer.status] ?? "Error"}`,
    "Content-Type: application/json; charset=utf-8",
    ...(answer.fields ?? []).map(({ name, value }) => `${name}: ${value}`),
    "X-HyperSwap-Gate: refused",
    `Content-Length: ${body.length}`,
    ...closes ? ["Connection: close"] : [],
  ];
  return encoder.encode(`${lines.join("\r\n")}\r\n\r\n${new TextDecoder().decode(body)}`);
}
