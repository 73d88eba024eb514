/** `hyperswap mcp`: MCP over this process's standard streams, for hosts that start a server themselves. */
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Transport } from "@modelcontextprotocol/server";
import { askAbout } from "./about.ts";
import type { Invoker } from "./invoker.ts";
import { buildMcp } from "./mcp.ts";

export interface McpStdioOptions {
  readonly invoker: Invoker;
  /** Ends the connection. */
  readonly signal: AbortSignal;
  /** What went wrong beside any call; nothing of it reaches the wire. */
  readonly onError: (error: Error) => void;
  /** Other streams than this process's own; for tests. */
  readonly transport?: Transport;
}

/** Serves until the host closes its end or the signal aborts. */
export async function serveMcpStdio(options: McpStdioOptions): Promise<void> {
  const { invoker, signal, onError } = options;
  const about = await askAbout(invoker, signal);
  const closed = Promise.withResolvers<void>();
  const handle = serveStdio(() => {
    const server = buildMcp(invoker, about);
    server.onclose = () => closed.resolve();
    return server;
  }, { onerror: onError, ...(options.transport === undefined ? {} : { transport: options.transport }) });
  const stop = () => void handle.close().then(closed.resolve, closed.reject);
  signal.addEventListener("abort", stop, { once: true });
  if (signal.aborted) stop();
  try {
    await closed.promise;
  } finally {
    signal.removeEventListener("abort", stop);
  }
}
