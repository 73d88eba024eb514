/** Where the doors stand: the port on one address, and the unix socket that may do everything. */
import { Failure, messageOf } from "../model/failure.ts";
import { hostUrl } from "../model/host_url.ts";
import type { Clock } from "../model/ports.ts";
import type { Peer } from "./access.ts";
import { ConnectionGuard } from "./connection_guard.ts";
import type { Lines } from "./connection_guard.ts";
import type { RestDoor } from "./rest.ts";

export interface ListenOptions {
  readonly rest: RestDoor;
  readonly hostname: string;
  /** 0 = whatever is free. */
  readonly port: number;
  /** Null: no unix socket. */
  readonly socketPath: string | null;
  /** Finds connections that only take up room; left out, none is ended. */
  readonly guard?: { readonly clock: Clock; readonly lines: Lines };
  /** Gives the socket its group and mode (0660), once it is there. */
  readonly guardSocket: (path: string) => void;
}

export interface Listening {
  /** Where the dashboard is. */
  readonly url: string;
  readonly port: number;
  readonly socketPath: string | null;
  /** Takes no more requests; resolves when those under way are answered. End streams first, or it never does. */
  stop(): Promise<void>;
}

type Server = Pick<Deno.HttpServer, "shutdown">;

/** Opens both; what is open already is closed again when the other can't be opened. */
export async function listen(options: ListenOptions): Promise<Listening> {
  const { rest, hostname, socketPath } = options;
  const servers: Server[] = [];
  let guard: ConnectionGuard | null = null;
  try {
    const tcp = serveTcp({ rest, hostname, port: options.port, begin: (peerPort) => guard?.begin(peerPort) });
    servers.push(tcp);
    if (socketPath !== null) {
      servers.push(await serveUnix(rest, socketPath));
      options.guardSocket(socketPath);
    }
    const { port } = tcp.addr;
    if (options.guard !== undefined) guard = new ConnectionGuard({ ...options.guard, port });
    return {
      url: hostUrl(hostname, port),
      port,
      socketPath,
      async stop() {
        guard?.stop();
        await Promise.all(servers.map((server) => server.shutdown()));
        // Deno 2.4.2 leaves the socket's file behind.
        if (socketPath !== null) await removeSocket(socketPath);
      },
    };
  } catch (error) {
    await Promise.all(servers.map((server) => server.shutdown()));
    throw error;
  }
}

function serveTcp(
  { rest, hostname, port, begin }: {
    readonly rest: RestDoor;
    readonly hostname: string;
    readonly port: number;
    readonly begin: (peerPort: number) => (() => void) | undefined;
  },
): Deno.HttpServer<Deno.NetAddr> {
  try {
    return Deno.serve({ hostname, port, onListen: () => {} }, (request, { remoteAddr, completed }) => {
      const end = begin(remoteAddr.port);
      // Rejects when the client left before the answer's end: over either way.
      if (end !== undefined) completed.then(end, end);
      const peer: Peer = { transport: "tcp", hostname: remoteAddr.hostname };
      return rest.fetch(request, peer);
    });
  } catch (error) {
    const isTaken = error instanceof Deno.errors.AddrInUse;
    throw new Failure(
      "unavailable",
      `Cannot listen on ${hostname}:${port}: ${isTaken ? "the port is taken" : messageOf(error)}`,
      {
        hint: isTaken ? "Choose another with --port, or stop what holds it" : "Check server.host and server.port",
        cause: error,
      },
    );
  }
}

async function serveUnix(rest: RestDoor, path: string): Promise<Server> {
  try {
    await Deno.mkdir(path.slice(0, Math.max(1, path.lastIndexOf("/"))), { recursive: true });
    // The owner's lock is held by now: a socket that stands there was left by a service that is gone.
    await removeSocket(path);
    return Deno.serve({ path, onListen: () => {} }, (request) => rest.fetch(request, { transport: "unix" }));
  } catch (error) {
    throw new Failure("unavailable", `Cannot listen on ${path}: ${messageOf(error)}`, {
      hint: "Set server.socket to a path whose folder this user may write",
      cause: error,
    });
  }
}

async function removeSocket(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
