/**
 * Pairs of answers, one straight from a server and one through the gate, compared as they came over the wire: status
 * line, header lines and body. What differs between two answers of the same server is masked.
 */
import assert from "node:assert/strict";
import type { Admission } from "../../lib/model/admission.ts";
import { openGate } from "../../lib/gate/gate.ts";
import type { Clock } from "../../lib/model/ports.ts";
import type { Tenant } from "../../lib/model/tenants.ts";

/** A request as lines; the host is each side's own. */
export interface PairRequest {
  readonly line: string;
  readonly headers?: readonly string[];
  readonly body?: string;
}

const post = (path: string, body: unknown, headers: readonly string[] = []): PairRequest => ({
  line: `POST ${path}`,
  headers: ["Content-Type: application/json", ...headers],
  body: typeof body === "string" ? body : JSON.stringify(body),
});

const STEADY = { num_predict: 3, seed: 1, temperature: 0 };
const say = (model: string, more: object) => ({ model, messages: [{ role: "user", content: "hi" }], ...more });

/** Everything a client of Ollama does, and what it refuses. */
export function ollamaPairs(model: string): readonly PairRequest[] {
  return [
    { line: "GET /" },
    { line: "HEAD /" },
    { line: "GET /api/version" },
    { line: "HEAD /api/tags" },
    { line: "GET /api/tags" },
    { line: "GET /api/ps" },
    { line: "HEAD /api/ps" },
    { line: "GET /nope" },
    { line: "POST /api/tags" },
    { line: "GET /api/tags/" },
    { line: "OPTIONS /api/chat" },
    { line: "OPTIONS /api/chat", headers: ["Origin: http://localhost:3000", "Access-Control-Request-Method: POST"] },
    { line: "OPTIONS /api/chat", headers: ["Origin: https://evil.example", "Access-Control-Request-Method: POST"] },
    { line: "GET /api/tags", headers: ["Origin: http://localhost:3000"] },
    { line: "GET /api/tags", headers: ["Origin: https://evil.example"] },
    post("/api/show", { model }),
    post("/api/show", { model: "unheard-of" }),
    post("/api/generate", { model, prompt: "a", stream: false, options: STEADY }),
    post("/api/generate", { model, prompt: "a", options: STEADY }),
    post("/api/generate", { model }),
    post("/api/generate", { model: "unheard-of", prompt: "a" }),
    post("/api/generate", { model, keep_alive: "300" }),
    post("/api/generate", "{"),
    post("/api/generate", ""),
    post("/api/chat", say(model, { stream: false, options: STEADY })),
    post("/api/chat", say(model, { options: STEADY })),
    post("/api/chat", say(model, { stream: false, options: STEADY }), ["Origin: http://127.0.0.1:3000"]),
    post("/api/chat", say(model, { stream: false, options: STEADY }), ["Origin: https://evil.example"]),
    post("/api/embed", { model, input: "" }),
    post("/v1/chat/completions", say(model, { max_tokens: 2, seed: 1, temperature: 0 })),
    post("/v1/chat/completions", say(model, { max_tokens: 2, seed: 1, temperature: 0, stream: true })),
    post("/v1/chat/completions", say(model, { messages: [] })),
    post("/v1/completions", { model, prompt: "a", max_tokens: 2, seed: 1, temperature: 0 }),
    { line: "GET /v1/models" },
    post("/api/generate", { model, keep_alive: 0 }),
  ];
}

/** Everything that ComfyUI's page and its API clients do, and what it refuses. */
export function comfyPairs(): readonly PairRequest[] {
  const prompt = { prompt: { 1: { class_type: "NoSuchNode", inputs: {} } }, client_id: "pairs" };
  return [
    { line: "GET /" },
    { line: "GET /queue" },
    { line: "GET /api/queue" },
    { line: "HEAD /queue" },
    { line: "GET /queue/" },
    { line: "GET /prompt" },
    { line: "GET /history?max_items=0" },
    { line: "GET /object_info" },
    { line: "GET /models/checkpoints" },
    { line: "GET /models/unet" },
    { line: "GET /features" },
    { line: "GET /ws" },
    { line: "OPTIONS /prompt" },
    { line: "POST /unheard-of" },
    { line: "GET /free" },
    post("/prompt", prompt),
    post("/api/prompt", { prompt: {} }),
    post("/prompt", []),
    post("/prompt", "{"),
    post("/prompt", ""),
    post("/free", "x"),
    post("/interrupt", {}),
    post("/queue", { clear: true }),
    { line: "GET /queue", headers: ["Origin: https://evil.example"] },
    post("/prompt", prompt, ["Origin: https://evil.example"]),
  ];
}

const VOLATILE: readonly (readonly [RegExp, string])[] = [
  [/^Date: .*$/im, "Date: …"],
  [/("(?:created_at|expires_at|modified_at)":\s*")[^"]*/g, "$1…"],
  [/("(?:[a-z_]*_duration|created|created_at|completed_at)":\s*)\d+/g, "$1…"],
  [/("(?:id|prompt_id|item_id|request_id)":\s*")[^"]*/g, "$1…"],
  [/("number":\s*)\d+/g, "$1…"],
];

/** The whole answer, its chunks joined (their sizes follow figures inside) and what differs each time masked. */
async function answerTo(url: string, { line, headers = [], body: sent }: PairRequest): Promise<string> {
  const { host, hostname, port } = new URL(url);
  const conn = await Deno.connect({ hostname, port: Number(port) });
  const length = sent === undefined ? [] : [`Content-Length: ${new TextEncoder().encode(sent).length}`];
  const lines = [`${line} HTTP/1.1`, `Host: ${host}`, ...headers, ...length, "Connection: close", "", sent ?? ""];
  await conn.write(new TextEncoder().encode(lines.join("\r\n")));
  const text = new TextDecoder("latin1").decode(await new Response(conn.readable).arrayBuffer());
  const end = text.indexOf("\r\n\r\n");
  const head = text.slice(0, end);
  const isChunked = /^transfer-encoding: chunked$/im.test(head);
  const body = isChunked ? joined(text.slice(end + 4)) : text.slice(end + 4);
  const answer = `${head}\n\n${inOrder(body)}`.replaceAll(host, "HOST");
  return VOLATILE.reduce((masked, [pattern, word]) =>
    masked.replaceAll(
      pattern.flags.includes("g") ? pattern : new RegExp(pattern, `${pattern.flags}g`),
      word,
    ), answer).replaceAll(/^Content-Length: .*$/gim, "Content-Length: …");
}

/** Lists come in whatever order a server's map has them. */
function inOrder(body: string): string {
  if (!body.startsWith('{"models":[') && !body.startsWith('{"object":"list"')) return body;
  return JSON.stringify(
    JSON.parse(body),
    (_key, value: unknown) =>
      Array.isArray(value) ? value.toSorted((a, b) => JSON.stringify(a) < JSON.stringify(b) ? -1 : 1) : value,
  );
}

function joined(chunks: string): string {
  let text = "";
  for (let at = 0;;) {
    const end = chunks.indexOf("\r\n", at);
    const size = parseInt(chunks.slice(at, end), 16);
    if (!(size > 0)) return size === 0 ? text : `${text}<cut>`;
    text += chunks.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
  }
}

/** Lets everything pass at once, as the arbiter does when nothing is to be held. */
export const OPEN: Admission = {
  offer: (_request, { signal }) =>
    Promise.resolve({
      kind: "pass",
      heldMs: 0,
      reason: "free",
      isOpen: false,
      message: "",
      ticket: {
        take: () => !signal.aborted,
        outOfMemory: () => Promise.resolve({ kind: "give_up", reason: "nothing to reclaim" }),
        ended: () => {},
      },
    }),
};

/** Asks everything twice and finds both answers equal. Returns how many pairs there were. */
export async function comparePairs(
  { tenant, url, clock, requests, until = (promise) => promise }: {
    readonly tenant: Tenant;
    readonly url: string;
    readonly clock: Clock;
    readonly requests: readonly PairRequest[];
    readonly until?: <T>(promise: Promise<T>) => Promise<T>;
  },
): Promise<number> {
  const side = { listen: "127.0.0.1:0", url };
  const log = { debug() {}, info() {}, warn() {}, error: (message: string) => assert.fail(message) };
  const sides = { ollama: tenant === "ollama" ? side : null, comfyui: tenant === "comfyui" ? side : null };
  const gate = await openGate({ ...sides, admission: OPEN, clock, log });
  try {
    for (const request of requests) {
      // Once before, so that both find the same model loaded and the same file read.
      await until(answerTo(url, request));
      const direct = await until(answerTo(url, request));
      const gated = await until(answerTo(gate.urls[tenant] ?? "", request));
      assert.equal(gated, direct, `${request.line} ${request.headers ?? ""} ${request.body ?? ""}`);
      assert.match(direct, /^HTTP\/1\.1 \d{3} /, request.line);
    }
  } finally {
    await gate.close(AbortSignal.abort());
  }
  return requests.length;
}
