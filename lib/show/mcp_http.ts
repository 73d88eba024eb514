/**
 * MCP over HTTP at `/mcp`, stateless: each request is answered by a server of its own. Who calls has been checked by
 * then; a caller's scopes hold for what it asks here too.
 */
import { createMcpHandler } from "@modelcontextprotocol/server";
import type { McpHttpHandler } from "@modelcontextprotocol/server";
import type { Services } from "../model/services.ts";
import type { Report } from "../operations/outcome.ts";
import type { Scopes } from "./access.ts";
import { MAX_BODY_BYTES } from "./bind.ts";
import { localInvoker } from "./invoker.ts";
import type { Invoker } from "./invoker.ts";
import { buildMcp } from "./mcp.ts";

export interface McpHttp {
  fetch(request: Request, scopes: Scopes): Promise<Response>;
  close(): Promise<void>;
}

/** The endpoint over one set of services. */
export function openMcpHttp(options: { readonly services: Services; readonly report: Report }): McpHttp {
  const { services, report } = options;
  const closing = new AbortController();
  // One handler for each set of scopes that calls: a server can't be asked for more than its caller may.
  const handlers = new Map<string, McpHttpHandler>();
  const handlerFor = (scopes: Scopes): McpHttpHandler => {
    const key = [...scopes].sort().join(" ");
    const known = handlers.get(key);
    if (known !== undefined) return known;
    const invoker = outlivingCallers(localInvoker({ services: () => services, scopes, report }), closing.signal);
    const handler = createMcpHandler(() => buildMcp(invoker, services.about), {
      onerror: () => {/* a malformed request, which its sender has been told about */},
      maxRequestBodySize: MAX_BODY_BYTES,
    });
    handlers.set(key, handler);
    return handler;
  };
  return {
    fetch: (request, scopes) => handlerFor(scopes).fetch(request),
    async close() {
      closing.abort();
      await Promise.all([...handlers.values()].map((handler) => handler.close()));
    },
  };
}

/** Over HTTP a dropped connection looks like a cancel, and must not be one: `cancel_run` is. Reads end with their caller. */
function outlivingCallers(invoker: Invoker, closing: AbortSignal): Invoker {
  return {
    ...invoker,
    invoke: (operation, input, call) =>
      invoker.invoke(operation, input, operation.access === "read" ? call : { ...call, signal: closing }),
  };
}
