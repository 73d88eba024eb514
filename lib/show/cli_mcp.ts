/** `hyperswap mcp`: MCP over standard streams, or with --sse over the protocol's first HTTP transport. */
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { CliAddress } from "./cli_commands.ts";
import { readAddress } from "./cli_address.ts";
import type { Invoker } from "./invoker.ts";

/** Where clients of the old transport look. */
const SSE_PORT = 8001;

export interface CliMcpParts {
  readonly stderr: (text: string) => void;
  /** Aborts on Ctrl-C. */
  readonly signal: AbortSignal;
  readonly clock: Clock;
  invoker(address: CliAddress): Promise<Invoker>;
}

/** Serves until the host closes its end or Ctrl-C; resolves with the exit code. */
export async function cliMcp(args: readonly string[], parts: CliMcpParts): Promise<number> {
  const onError = (error: Error) => parts.stderr(`error: ${error.message}\n`);
  const { clock, signal } = parts;
  if (args.includes("--sse")) {
    const { serveMcpSse } = await import("./mcp_sse.ts");
    await serveMcpSse({
      port: readPort(args.filter((arg) => arg !== "--sse")),
      clock,
      signal,
      onError,
      onListening: (url) => parts.stderr(`HyperSwap speaks MCP (HTTP+SSE) at ${url}\n`),
      // Over the port, as the client itself would call: this process's own rights are not the client's.
      invoker: (authorization) =>
        parts.invoker({ host: null, port: null, socket: null, token: bearerOf(authorization), isBare: true }),
    });
    return 0;
  }
  const { serveMcpStdio } = await import("./mcp_stdio.ts");
  const invoker = await parts.invoker(readAddress(args));
  try {
    await serveMcpStdio({ invoker, clock, signal, onError });
    return 0;
  } finally {
    invoker.close();
  }
}

/** With --sse, --port is where to listen; the service is found by the configuration. */
function readPort(args: readonly string[]): number {
  const { port, host, socket, token } = readAddress(args);
  if (host !== null || socket !== null || token !== null) {
    throw new Failure("invalid_input", "--sse takes only --port", {
      hint: "It listens on 127.0.0.1; clients send their own token, and the configuration says where the service is",
    });
  }
  const number = port === null ? SSE_PORT : Number(port);
  if (Number.isInteger(number) && number >= 0 && number <= 65_535) return number;
  throw new Failure("invalid_input", `--port must be a whole number from 0 to 65535, not ${JSON.stringify(port)}`);
}

function bearerOf(authorization: string | null): string | null {
  return /^Bearer ([!-~]+)$/i.exec(authorization ?? "")?.[1] ?? null;
}
