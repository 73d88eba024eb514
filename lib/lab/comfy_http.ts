/** The transport rules of the simulated ComfyUI (aiohttp): origins, methods, `/api` twins, how errors look. */
import type { Exchange, HeaderPairs } from "./exchange.ts";

export type ComfyRoute = (exchange: Exchange, rest: string) => Promise<void>;

/** Exact paths, and prefixes that end in "/". Everything is there with `/api` before it too. */
export type ComfyRoutes = Readonly<Record<string, { readonly GET?: ComfyRoute; readonly POST?: ComfyRoute }>>;

export const JSON_HEADERS: HeaderPairs = [["Content-Type", "application/json; charset=utf-8"]];
const TEXT_HEADERS: HeaderPairs = [["Content-Type", "text/plain; charset=utf-8"]];

/** What the real server's handlers throw on bad input ends as a bare 500. */
export class ServerTrouble extends Error {}

export async function answerComfy(exchange: Exchange, routes: ComfyRoutes): Promise<void> {
  exchange.alwaysSend([["Server", "Python/3.11 aiohttp/3.14.5"]]);
  if (!isAllowedOrigin(exchange.header("host"), exchange.header("origin"))) return exchange.send({ status: 403 });
  const { method } = exchange.head;
  if (method === "OPTIONS") return exchange.send({ status: 200 });
  const path = exchange.head.path.startsWith("/api/") ? exchange.head.path.slice(4) : exchange.head.path;
  const prefix = Object.keys(routes).find((key) => key.length > 1 && key.endsWith("/") && path.startsWith(key));
  const route = routes[path] ?? (prefix === undefined || path === prefix ? undefined : routes[prefix]);
  const rest = prefix === undefined ? "" : decodeURIComponent(path.slice(prefix.length));
  const handler = method === "HEAD" ? route?.GET : method === "GET" || method === "POST" ? route?.[method] : undefined;
  if (handler === undefined) {
    // The static route at "/" takes every GET: what isn't there is 404, whatever else it could be asked for.
    if (method === "GET" || method === "HEAD") return notFound(exchange);
    const allow = route?.POST === undefined ? "GET,HEAD" : "GET,HEAD,POST";
    return exchange.send({
      status: 405,
      headers: [...TEXT_HEADERS, ["Allow", allow]],
      body: "405: Method Not Allowed",
    });
  }
  try {
    await handler(exchange, rest);
  } catch (error) {
    if (!(error instanceof ServerTrouble)) throw error;
    const body = "500 Internal Server Error\n\nServer got itself in trouble";
    await exchange.send({ status: 500, headers: [...TEXT_HEADERS, ["Connection", "close"]], body });
  }
}

export function sendJson(exchange: Exchange, body: unknown, status = 200): Promise<void> {
  return exchange.send({ status, headers: JSON_HEADERS, body: JSON.stringify(body) });
}

/** A JSON body; whatever isn't JSON is trouble. */
export function jsonBody(exchange: Exchange): unknown {
  try {
    return JSON.parse(exchange.text());
  } catch (cause) {
    throw new ServerTrouble("Not JSON", { cause });
  }
}

/** A JSON object, from which fields are taken; an array or a bare value is trouble. */
export function jsonObject(exchange: Exchange): Readonly<Record<string, unknown>> {
  const body = jsonBody(exchange);
  if (typeof body !== "object" || body === null || Array.isArray(body)) throw new ServerTrouble("Not an object");
  // as: neither null nor an array, so an object with string keys.
  return body as Readonly<Record<string, unknown>>;
}

async function notFound(exchange: Exchange): Promise<void> {
  await exchange.begin(404, [["Content-Type", "application/octet-stream"]]);
  await exchange.end();
}

/**
 * Refused exactly when both headers are there, the host is loopback, the origin has a host part, and the two differ.
 * Ports count only when both name one.
 */
function isAllowedOrigin(host: string | null, origin: string | null): boolean {
  if (host === null || origin === null) return true;
  const [hostName, hostPort] = splitPort(host.toLowerCase());
  if (!/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostName)) return true;
  const match = /^[a-z][a-z0-9+.-]*:\/\/([^/]+)/.exec(origin.toLowerCase());
  if (match === null) return true;
  const [originName, originPort] = splitPort(match[1] ?? "");
  return hostName === originName && (hostPort === null || originPort === null || hostPort === originPort);
}

function splitPort(host: string): readonly [name: string, port: string | null] {
  const match = /^(.*):(\d+)$/.exec(host);
  return match === null ? [host, null] : [match[1] ?? "", match[2] ?? null];
}
