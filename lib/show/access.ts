/**
 * Who may do what (SPEC 7). An unauthenticated local caller may do no more than it could without us: see, and move VRAM
 * (it could ask Ollama and ComfyUI itself). The card's settings need the unix socket or a token.
 */
import { createHash, timingSafeEqual } from "node:crypto";
import type { Scope, Services } from "../model/services.ts";
import { ACCESSES } from "../operations/operation.ts";
import type { Access, Operation } from "../operations/operation.ts";
import { refused } from "../operations/outcome.ts";
import type { Refused } from "../operations/outcome.ts";
import { operationNamed } from "../operations/registry.ts";

export type Scopes = ReadonlySet<Access>;

export interface Token {
  /** What the log calls its bearer; never the secret. */
  readonly name: string;
  readonly secret: string;
  readonly scopes: readonly Access[];
}

export interface AccessPolicy {
  /** What a loopback caller without credentials may do (`access.loopback`). */
  readonly loopback: readonly Access[];
  readonly tokens: readonly Token[];
  /** Host names, beside those of loopback, under which the service may be reached. */
  readonly hosts: readonly string[];
}

/** Loopback may see and operate; the socket may do all; there are no tokens. */
export const DEFAULT_ACCESS: AccessPolicy = { loopback: ["read", "operate"], tokens: [], hosts: [] };

/** The other end of a connection, as Deno.serve names it. */
export type Peer = { readonly transport: "unix" } | { readonly transport: "tcp"; readonly hostname: string };

/** A connection's other end, from what Deno.serve hands over with each request. */
export function peerOf(address: Deno.Addr): Peer {
  return "hostname" in address ? { transport: "tcp", hostname: address.hostname } : { transport: "unix" };
}

export type Admission = { readonly ok: true; readonly scopes: Scopes; readonly who: string } | Refused;

const LOOPBACK_NAMES = ["localhost", "127.0.0.1", "[::1]"];

export interface Caller {
  readonly peer: Peer;
  readonly policy: AccessPolicy;
  /** What a dashboard's login allows; null without one. */
  readonly login: readonly Scope[] | null;
}

/** Scopes of a request, or why it has none. Host and Origin must have been checked. */
export function admit(request: Request, { peer, policy, login }: Caller): Admission {
  const authorization = request.headers.get("authorization");
  if (authorization !== null) return admitBearer(authorization, policy.tokens);
  if (peer.transport === "unix") return { ok: true, scopes: new Set(ACCESSES), who: "socket" };
  const isLocal = isLoopback(peer.hostname) && !isForwarded(request);
  // A login adds to what being here allows, and takes nothing away.
  if (login !== null) return { ok: true, scopes: new Set([...login, ...isLocal ? policy.loopback : []]), who: "login" };
  if (isLocal) return { ok: true, scopes: new Set(policy.loopback), who: "loopback" };
  return refused("unauthorized", "Cannot tell who is calling: requests from elsewhere need a token", {
    hint: "Send Authorization: Bearer <token>, with a token of access.tokens in the configuration",
  });
}

function admitBearer(authorization: string, tokens: readonly Token[]): Admission {
  const given = /^Bearer ([!-~]+)$/i.exec(authorization)?.[1] ?? null;
  if (given === null) {
    return refused("unauthorized", "Cannot read the Authorization header: it must be Bearer <token>");
  }
  const digest = digestOf(given);
  // Every token is compared, each in constant time: how long this takes tells nothing about them.
  const matching = tokens.filter((token) => timingSafeEqual(digestOf(token.secret), digest));
  const token = matching[0];
  if (token === undefined) {
    return refused("unauthorized", "Cannot accept this token: it is not one of access.tokens", {
      hint: "Check the token; a token that was changed works after the service has reloaded its configuration",
    });
  }
  return { ok: true, scopes: new Set(token.scopes), who: token.name };
}

function digestOf(secret: string): Uint8Array {
  return createHash("sha256").update(secret).digest();
}

/** A proxy on this machine speaks for callers from anywhere: what it passes on isn't local. */
function isForwarded({ headers }: Request): boolean {
  return headers.has("forwarded") || headers.has("x-forwarded-for");
}

/** Null when the scope is there; else the refusal, with the setting that grants it. */
export function refuseWithout(access: Access, scopes: Scopes, operation: string): Refused | null {
  if (scopes.has(access)) return null;
  const loopback = [...new Set(["read", "operate", access])].map((scope) => `"${scope}"`).join(", ");
  return refused("forbidden", `Cannot call ${operation}: it needs the scope ${access}`, {
    hint: `Use the unix socket (group hyperswap), a token with the scope ${access}, ` +
      (access === "admin" ? "" : "the link that hyperswap dashboard prints, ") +
      `or set access.loopback = [${loopback}] in the configuration`,
    details: { scope: access, granted: [...scopes] },
  });
}

/** The scope that the call needs because of what it acts on (cancelling takes what starting took). */
export function refuseAs(
  operation: Operation,
  call: { readonly services: Services; readonly input: Readonly<Record<string, unknown>>; readonly scopes: Scopes },
): Refused | null {
  const name = operation.accessAs?.(call.services, call.input) ?? null;
  return name === null ? null : refuseWithout(operationNamed(name).access, call.scopes, operation.name);
}

/**
 * Refuses what a browser was talked into: a Host that isn't ours (DNS rebinding: a foreign name that resolves to
 * 127.0.0.1), or an Origin that isn't the page we served.
 */
export function refuseForeign(request: Request, peer: Peer, policy: AccessPolicy): Refused | null {
  const host = request.headers.get("host");
  // No browser reaches a unix socket, so any Host will do there.
  if (peer.transport === "tcp" && (host === null || !isOurs(host, policy))) {
    return refused(
      "forbidden",
      `Cannot serve the host ${JSON.stringify(host ?? "")}: it is not a name of this service`,
      {
        hint: "Use localhost or 127.0.0.1, or add the name to access.hosts in the configuration",
      },
    );
  }
  if (isCrossSite(request)) {
    return refused("forbidden", "Cannot accept requests that another site's page makes", {
      hint: "Open the dashboard itself; only its own pages may call this service from a browser",
    });
  }
  const origin = request.headers.get("origin");
  if (origin === null) return null;
  const isSame = host !== null && (origin === `http://${host}` || origin === `https://${host}`);
  if (isSame && (peer.transport === "unix" || isOurs(host, policy))) return null;
  return refused("forbidden", `Cannot accept requests of the page ${JSON.stringify(origin)}: it is not ours`, {
    hint: "Only the dashboard's own pages may call this service from a browser",
  });
}

/** What the browser itself says of who asks. Another port of this host is another site here; following a link is none. */
function isCrossSite({ method, headers }: Request): boolean {
  const site = headers.get("sec-fetch-site");
  if (site === null || site === "same-origin" || site === "none") return false;
  const isLink = headers.get("sec-fetch-mode") === "navigate" && headers.get("sec-fetch-dest") === "document";
  return !(isLink && (method === "GET" || method === "HEAD"));
}

function isOurs(host: string, policy: AccessPolicy): boolean {
  const name = host.replace(/:\d+$/, "").toLowerCase();
  return LOOPBACK_NAMES.includes(name) || policy.hosts.some((ours) => ours.toLowerCase() === name);
}

/** 127.0.0.0/8 and ::1, also as IPv4 inside IPv6. */
export function isLoopback(hostname: string): boolean {
  const address = hostname.toLowerCase().replace(/^\[|\]$/g, "").replace(/^::ffff:/, "");
  return address === "::1" || address === "localhost" || /^127(\.\d{1,3}){3}$/.test(address);
}

/** Why the service must not listen there, or null: whoever isn't on this machine needs a token. */
export function refuseBind(hostname: string, policy: AccessPolicy): Refused | null {
  const weak = policy.tokens.find(({ secret }) => secret.length < MIN_SECRET_CHARS);
  if (weak !== undefined) {
    return refused(
      "invalid_input",
      `Cannot use the token "${weak.name}": it is shorter than ${MIN_SECRET_CHARS} letters`,
      {
        hint: "Make one with: openssl rand -hex 24",
      },
    );
  }
  if (isLoopback(hostname) || policy.tokens.length > 0) return null;
  return refused("invalid_input", `Cannot listen on ${hostname} without a token: anyone who reaches it could use it`, {
    hint: "Add a token to access.tokens in the configuration, or listen on 127.0.0.1",
  });
}

/** Short secrets can be guessed over the network. */
const MIN_SECRET_CHARS = 16;

/** The scopes of whoever runs the program itself. */
export const ALL_SCOPES: Scopes = new Set(ACCESSES);
