/**
 * MCP over HTTP at `/mcp`. Protocol versions up to 2025-11-25 get sessions; 2026-07-28, and whoever asks without a
 * session, is answered request by request. Who calls has been checked by then; a caller's scopes hold for what it asks
 * here too.
 */
import { createMcpHandler, isLegacyRequest, legacyStatelessFallback } from "@modelcontextprotocol/server";
import type { LegacyHttpHandler, McpHttpHandler } from "@modelcontextprotocol/server";
import type { Clock } from "../model/ports.ts";
import type { Services } from "../model/services.ts";
import type { Report } from "../operations/outcome.ts";
import type { Scopes } from "./access.ts";
import { MAX_BODY_BYTES } from "./bind.ts";
import { localInvoker } from "./invoker.ts";
import { buildMcp } from "./mcp.ts";
import { ResourceWatch } from "./mcp_live.ts";
import { McpSessions } from "./mcp_sessions.ts";
import type { McpCaller } from "./mcp_sessions.ts";

/** Subscriptions of the 2026 protocol that one set of scopes may have open. */
const MAX_SUBSCRIPTIONS = 64;

export interface McpHttpOptions {
  readonly services: Services;
  readonly clock: Clock;
  readonly report: Report;
}

export interface McpHttp {
  fetch(request: Request, caller: { readonly who: string; readonly scopes: Scopes }): Promise<Response>;
  close(): Promise<void>;
}

/** What callers with the same name and scopes share. */
interface Desk extends McpCaller {
  readonly modern: McpHttpHandler;
  readonly stateless: LegacyHttpHandler;
  readonly watch: ResourceWatch;
}

/** The endpoint over one set of services. */
export function openMcpHttp({ services, clock, report }: McpHttpOptions): McpHttp {
  const closing = new AbortController();
  const sessions = new McpSessions({ clock });
  // One desk for each caller: a server can't be asked for more than its caller may.
  const desks = new Map<string, Desk>();
  const deskOf = (key: string, scopes: Scopes): Desk => {
    const known = desks.get(key);
    if (known !== undefined) return known;
    const invoker = localInvoker({ services: () => services, scopes, report });
    const watch = new ResourceWatch({ invoker, clock });
    const build = () => buildMcp({ invoker, about: services.about, watch, closing: closing.signal });
    const onerror = () => {/* a malformed request, which its sender has been told about */};
    const limits = { maxRequestBodySize: MAX_BODY_BYTES };
    const modern = createMcpHandler(build, {
      ...limits,
      legacy: "reject",
      bus: watch,
      maxSubscriptions: MAX_SUBSCRIPTIONS,
      onerror,
    });
    const desk = { key, build, watch, modern, stateless: legacyStatelessFallback(build, onerror, limits) };
    desks.set(key, desk);
    return desk;
  };
  return {
    async fetch(request, { who, scopes }) {
      const desk = deskOf(JSON.stringify([who, ...[...scopes].sort()]), scopes);
      const isOld = await isLegacyRequest(request, undefined, { maxRequestBodySize: MAX_BODY_BYTES });
      if (!isOld) return await desk.modern.fetch(request);
      return await sessions.fetch(request, desk) ?? await desk.stateless(request);
    },
    async close() {
      closing.abort();
      await sessions.close();
      await Promise.all([...desks.values()].map(({ modern }) => modern.close()));
      for (const { watch } of desks.values()) watch.close();
    },
  };
}
