/** The transport rules of the simulated Ollama: who may ask, which methods there are, how errors look. */
import type { Exchange, HeaderPairs } from "./exchange.ts";
import type { Route } from "./ollama_api.ts";
import { OllamaRefusal } from "./ollama_scheduler.ts";

const JSON_TYPE: HeaderPairs = [["Content-Type", "application/json; charset=utf-8"]];
const PLAIN_TYPE: HeaderPairs = [["Content-Type", "text/plain"]];
const HEAD_PATHS = new Set(["/", "/api/version", "/api/tags"]);
const ALLOWED_HEADERS = [
  "Authorization",
  "Content-Type",
  "User-Agent",
  "Accept",
  "X-Requested-With",
  "Openai-Beta",
  "X-Stainless-Arch",
  "X-Stainless-Async",
  "X-Stainless-Custom-Poll-Interval",
  "X-Stainless-Helper-Method",
  "X-Stainless-Lang",
  "X-Stainless-Os",
  "X-Stainless-Package-Version",
  "X-Stainless-Poll-Helper",
  "X-Stainless-Retry-Count",
  "X-Stainless-Runtime",
  "X-Stainless-Runtime-Version",
  "X-Stainless-Timeout",
].join(",");

export type RouteTable = Readonly<Record<string, Readonly<Record<string, Route>>>>;

/** Answers one request by the table, or refuses it as the real server does. */
export async function answerOllama(exchange: Exchange, table: RouteTable): Promise<void> {
  const origin = exchange.header("origin");
  const host = exchange.header("host") ?? "";
  if (!isAllowedOrigin(origin, host) || !isAllowedHost(host)) return exchange.send({ status: 403 });
  const { method, path } = exchange.head;
  if (method === "OPTIONS" && origin !== null && exchange.header("access-control-request-method") !== null) {
    return exchange.send({ status: 204, headers: preflightHeaders(origin) });
  }
  exchange.alwaysSend(corsHeaders(origin));
  const route = routeOf(table, { method, path });
  if (route === "unknown") return unknownPath(exchange, table);
  if (route === "wrong method") {
    return exchange.send({ status: 405, headers: PLAIN_TYPE, body: "405 method not allowed" });
  }
  try {
    await route(exchange);
  } catch (error) {
    if (!(error instanceof OllamaRefusal)) throw error;
    // Beside a client that hung up nobody reads it, and the connection is left open.
    if (exchange.hungUp.aborted) return;
    await exchange.send({ status: error.status, headers: JSON_TYPE, body: JSON.stringify({ error: error.message }) });
  }
}

function routeOf(
  table: RouteTable,
  { method, path }: { readonly method: string; readonly path: string },
): Route | "unknown" | "wrong method" {
  const routes = table[path];
  if (routes === undefined) return "unknown";
  const isHead = method === "HEAD" && HEAD_PATHS.has(path);
  return routes[isHead ? "GET" : method] ?? "wrong method";
}

/** A trailing or double slash is redirected to the route it must have meant. */
function unknownPath(exchange: Exchange, table: RouteTable): Promise<void> {
  const { method, path } = exchange.head;
  const trimmed = path.replace(/\/+$/, "");
  if (path !== trimmed && table[trimmed] !== undefined) {
    const body = method === "GET" ? `<a href="${trimmed}">Moved Permanently</a>.\n\n` : "";
    return exchange.send({ status: method === "GET" ? 301 : 307, headers: [["Location", trimmed]], body });
  }
  const single = path.replace(/\/{2,}/g, "/");
  if (single !== path && table[single] !== undefined) {
    return exchange.send({ status: 307, headers: [["Location", single]] });
  }
  return exchange.send({ status: 404, headers: PLAIN_TYPE, body: "404 page not found" });
}

function preflightHeaders(origin: string): HeaderPairs {
  return [
    ["Access-Control-Allow-Origin", origin],
    ["Access-Control-Allow-Methods", "GET,POST,PUT,PATCH,DELETE,HEAD,OPTIONS"],
    ["Access-Control-Allow-Headers", ALLOWED_HEADERS],
    ["Access-Control-Max-Age", "43200"],
    ["Vary", "Access-Control-Request-Headers"],
  ];
}

const LOCAL_ORIGIN = /^https?:\/\/(localhost|127\.0\.0\.1|0\.0\.0\.0)(:\d+)?$/;
const APP_ORIGIN =
  /^(app|file|tauri|vscode-webview|vscode-file|chrome-extension|moz-extension|safari-web-extension):\/\//;

function isAllowedOrigin(origin: string | null, host: string): boolean {
  if (origin === null || origin === `http://${host}` || origin === `https://${host}`) return true;
  return LOCAL_ORIGIN.test(origin) || APP_ORIGIN.test(origin);
}

const LOCAL_NAME = /(^localhost|\.localhost|\.local|\.internal)$/i;
const PRIVATE_ADDRESS = /^(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|0\.0\.0\.0$|\[::1?\])/;

/** Checked because the server is bound to loopback. */
function isAllowedHost(host: string): boolean {
  const name = host.replace(/:\d+$/, "");
  return name === "" || LOCAL_NAME.test(name) || PRIVATE_ADDRESS.test(name);
}

/** What an answer to an allowed origin carries beside its own headers. */
function corsHeaders(origin: string | null): HeaderPairs {
  return origin === null ? [] : [["Access-Control-Allow-Origin", origin], ["Vary", "Origin"]];
}
