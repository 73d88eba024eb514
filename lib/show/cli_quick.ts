/**
 * `hyperswap --json` beside a running service: one request, no library, the service's own answer. Scripts and status
 * bars call it every second, and the parser, the schemas and the client of the other commands would cost them four
 * times as much as the rest of the process. Whatever isn't plain here is left to those: null means that nothing was said.
 */

/** A service's address as Deno.connect takes it. */
export type Endpoint =
  | { readonly transport: "unix"; readonly path: string }
  | { readonly transport: "tcp"; readonly hostname: string; readonly port: number };

export interface QuickFlags {
  readonly host?: string;
  readonly port?: string;
  readonly socket?: string;
  readonly token?: string;
}

export interface QuickAnswer {
  /** `/api/stats`, as the service wrote it. */
  readonly text: string;
  readonly simulation: string | null;
}

const VALUE_FLAGS = ["host", "port", "socket", "token"] as const;

/** The flags of a call that this can answer; null for every other command line. */
export function quickFlags(argv: readonly string[]): QuickFlags | null {
  const args = argv[0] === "status" ? argv.slice(1) : [...argv];
  const flags: { -readonly [F in keyof QuickFlags]: QuickFlags[F] } = {};
  let isJson = false;
  for (let at = 0; at < args.length; at++) {
    const arg = args[at] ?? "";
    if (arg === "--json") {
      isJson = true;
      continue;
    }
    const [name, inline] = arg.split(/=(.*)/s, 2);
    const flag = VALUE_FLAGS.find((known) => name === `--${known}`);
    const value = inline ?? args[++at];
    if (flag === undefined || value === undefined || value === "" || flag in flags) return null;
    flags[flag] = value;
  }
  return isJson ? flags : null;
}

/** The answer of the first of these services that gives one. */
export async function askQuickly(
  endpoints: readonly Endpoint[],
  { token, signal }: { readonly token: string | null; readonly signal: AbortSignal },
): Promise<QuickAnswer | null> {
  for (const endpoint of endpoints) {
    const body = await getStats(endpoint, { token, signal });
    const answer = body === null ? null : readStats(body);
    if (answer !== null) return answer;
  }
  return null;
}

/**
 * A request by hand: the runtime's fetch sets up TLS, proxies and a pool first, which takes as long as a whole process
 * that prints a line. HTTP/1.0, so that the answer ends with the connection and comes in one piece.
 */
async function getStats(
  endpoint: Endpoint,
  { token, signal }: { readonly token: string | null; readonly signal: AbortSignal },
): Promise<string | null> {
  // A header that holds a line break would be two.
  if (token !== null && !/^[!-~]+$/.test(token)) return null;
  try {
    using connection = await (endpoint.transport === "unix" ? Deno.connect(endpoint) : Deno.connect(endpoint));
    const hangUp = () => connection.close();
    if (signal.aborted) return null;
    signal.addEventListener("abort", hangUp, { once: true });
    try {
      await writeAll(connection, requestText(endpoint, token));
      return bodyOf(await readAll(connection));
    } finally {
      signal.removeEventListener("abort", hangUp);
    }
  } catch (error) {
    // Nobody there, or gone meanwhile: the full search says what it tried and why that failed.
    if (error instanceof TypeError) throw error;
    return null;
  }
}

function requestText(endpoint: Endpoint, token: string | null): Uint8Array {
  const host = endpoint.transport === "unix" ? "localhost" : hostHeader(endpoint);
  const lines = [
    "GET /api/stats HTTP/1.0",
    `host: ${host}`,
    ...(token === null ? [] : [`authorization: Bearer ${token}`]),
    "connection: close",
  ];
  return new TextEncoder().encode(`${lines.join("\r\n")}\r\n\r\n`);
}

function hostHeader({ hostname, port }: { readonly hostname: string; readonly port: number }): string {
  return `${hostname.includes(":") && !hostname.startsWith("[") ? `[${hostname}]` : hostname}:${port}`;
}

async function writeAll(connection: Deno.Conn, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.byteLength;) at += await connection.write(bytes.subarray(at));
}

/** By hand as well: the stream of a connection loads what streams are made of. */
async function readAll(connection: Deno.Conn): Promise<string> {
  const decoder = new TextDecoder();
  const chunk = new Uint8Array(64 * 1024);
  let text = "";
  for (;;) {
    const count = await connection.read(chunk);
    if (count === null) return text + decoder.decode();
    text += decoder.decode(chunk.subarray(0, count), { stream: true });
  }
}

/** The body of a plain 200; null for any other answer, and for one whose body is encoded somehow. */
function bodyOf(answer: string): string | null {
  const end = answer.indexOf("\r\n\r\n");
  if (end < 0) return null;
  const head = answer.slice(0, end);
  const isPlain = /^HTTP\/1\.[01] 200 /.test(head) && !/^(?:transfer|content)-encoding:/im.test(head);
  return isPlain ? answer.slice(end + 4) : null;
}

/** Whether that was HyperSwap: anything may listen on a port. */
function readStats(body: string): QuickAnswer | null {
  try {
    const stats: unknown = JSON.parse(body);
    if (typeof stats !== "object" || stats === null || !("arbitration" in stats && "gpu" in stats)) return null;
    const simulation: unknown = Reflect.get(stats, "simulation");
    return { text: body, simulation: typeof simulation === "string" ? simulation : null };
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}
