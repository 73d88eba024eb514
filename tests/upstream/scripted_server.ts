/** A loopback HTTP server that answers what a test tells it to, and remembers what it was asked. */
export interface Asked {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly headers: Headers;
  readonly body: string;
}

export type Answer = (asked: Asked, signal: AbortSignal) => Response | Promise<Response>;

export interface ScriptedServer extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly asked: readonly Asked[];
  /** Resolves when a request came in whose client has hung up. */
  readonly hungUp: Promise<void>;
}

export function serveScript(answer: Answer): ScriptedServer {
  const asked: Asked[] = [];
  const { promise: hungUp, resolve } = Promise.withResolvers<void>();
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => {} }, async (request) => {
    request.signal.addEventListener("abort", () => resolve());
    const { pathname, search } = new URL(request.url);
    const entry = {
      method: request.method,
      path: pathname + search,
      headers: request.headers,
      body: await request.text(),
    };
    asked.push(entry);
    return answer(entry, request.signal);
  });
  const { port } = server.addr;
  return {
    url: `http://127.0.0.1:${port}`,
    port,
    asked,
    hungUp,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
    },
  };
}

export function json(value: unknown, status = 200): Response {
  return Response.json(value, { status });
}

/** A response that never comes, until its client hangs up. */
export function never(signal: AbortSignal): Promise<Response> {
  const { promise, resolve } = Promise.withResolvers<Response>();
  signal.addEventListener("abort", () => resolve(new Response(null, { status: 499 })));
  return promise;
}

/** A TCP server that handles each connection by hand, for answers that are not quite HTTP. */
export function serveBytes(
  onConnection: (connection: Deno.TcpConn) => Promise<void>,
): AsyncDisposable & { url: string } {
  const listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  const work: Promise<void>[] = [];
  const accept = (async () => {
    for await (const connection of listener) work.push(onConnection(connection));
  })();
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    async [Symbol.asyncDispose]() {
      listener.close();
      await accept;
      await Promise.all(work);
    },
  };
}

/** A port that nobody listens on (it was free a moment ago). */
export function unusedPort(): number {
  using listener = Deno.listen({ port: 0, hostname: "127.0.0.1" });
  return listener.addr.port;
}
