/** `hyperswap mcp`: MCP over this process's standard streams, for hosts that start a server themselves. */
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import type { Transport } from "@modelcontextprotocol/server";
import type { Clock } from "../model/ports.ts";
import { askAbout } from "./about.ts";
import type { Invoker } from "./invoker.ts";
import { buildMcp } from "./mcp.ts";
import { ResourceWatch } from "./mcp_live.ts";
import { pushEverything } from "./mcp_resources.ts";

export interface McpStdioOptions {
  readonly invoker: Invoker;
  readonly clock: Clock;
  /** Ends the connection. */
  readonly signal: AbortSignal;
  /** What went wrong beside any call; nothing of it reaches the wire. */
  readonly onError: (error: Error) => void;
  /** Other streams than this process's own; for tests. */
  readonly transport?: Transport;
}

/** Serves until the host closes its end or the signal aborts. */
export async function serveMcpStdio(options: McpStdioOptions): Promise<void> {
  const { invoker, clock, signal, onError } = options;
  const about = await askAbout(invoker, signal);
  const closed = Promise.withResolvers<void>();
  const watch = new ResourceWatch({ invoker, clock });
  const transport = options.transport ?? new StdioServerTransport();
  const handle = serveStdio(({ era }) => {
    const server = buildMcp({ invoker, about, watch, closing: signal });
    // The SDK keeps this era's subscriptions itself and lets through what was subscribed to.
    if (era === "modern") pushEverything(server, watch);
    return server;
  }, { onerror: onError, transport });
  // The line's end, not a server's: one that only answered what is spoken here is closed long before.
  const { onclose } = transport;
  transport.onclose = () => {
    onclose?.();
    closed.resolve();
  };
  const stop = () => void handle.close().then(closed.resolve, closed.reject);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await closed.promise;
  } finally {
    signal.removeEventListener("abort", stop);
    watch.close();
  }
}
