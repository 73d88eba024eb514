/**
 * The gate: two listeners that clients may be pointed at instead of Ollama and ComfyUI. Everything passes as it comes;
 * what would make a tenant take VRAM passes on the arbiter's word (SPEC 2.9).
 *
 * It speaks HTTP/1 on bare sockets. Measured on the runtime that is shipped (2.4.2), node:http writes heads of its own
 * (names in lower case, fields added, a length turned into chunks, reason phrases and interim answers lost), answers
 * `Expect` itself even where the upstream refuses, and only half-closes towards an upstream whose client has left, which
 * Ollama never answers. 2.9.6 keeps heads, and still does the last two.
 */
import type { Admission, GateDoors } from "../model/admission.ts";
import { Failure, messageOf } from "../model/failure.ts";
import type { Clock, Log } from "../model/ports.ts";
import type { Tenant } from "../model/tenants.ts";
import { ClientConnection } from "./client_connection.ts";
import type { DoorSide } from "./door_side.ts";
import { KeptBytes } from "./kept_body.ts";
import { type ListenAddress, listenAddress, urlOf } from "./listen_address.ts";
import { Socket } from "./socket.ts";
import { upstreamAddress } from "./upstream_link.ts";

/** Beyond that the connection that has rested longest is closed for a new one. */
const MAX_CONNECTIONS = 4_096;
/** After a failed accept (no descriptors left). */
const ACCEPT_PAUSE_MS = 100;

export interface GateSide {
  /** `127.0.0.1:11435`, `[::1]:11435` or `unix:/path`. Port 0 = whatever is free. */
  readonly listen: string;
  /** The server's own URL. */
  readonly url: string;
}

export interface GateOptions {
  /** Null: that side stays closed. */
  readonly ollama: GateSide | null;
  readonly comfyui: GateSide | null;
  readonly admission: Admission;
  readonly clock: Clock;
  readonly log: Log;
  /** Gives a unix socket its group and mode, once it is there. */
  readonly guardSocket?: (path: string) => void;
}

/** Opens both sides; what is open already is closed again when the other can't be opened. */
export async function openGate(options: GateOptions): Promise<GateDoors> {
  const kept = new KeptBytes();
  const doors = new Map<Tenant, Door>();
  try {
    for (const tenant of ["ollama", "comfyui"] as const) {
      const side = options[tenant];
      if (side !== null) doors.set(tenant, await openDoor(tenant, side, { ...options, kept }));
    }
  } catch (error) {
    await Promise.all([...doors.values()].map((door) => door.close(AbortSignal.abort())));
    throw error;
  }
  return {
    urls: { ollama: doors.get("ollama")?.url ?? null, comfyui: doors.get("comfyui")?.url ?? null },
    open: () => ({ ollama: doors.get("ollama")?.open ?? 0, comfyui: doors.get("comfyui")?.open ?? 0 }),
    close: async (signal) => {
      await Promise.all([...doors.values()].map((door) => door.close(signal)));
    },
  };
}

async function openDoor(
  tenant: Tenant,
  { listen, url }: GateSide,
  { admission, clock, log, kept, guardSocket }: GateOptions & { readonly kept: KeptBytes },
): Promise<Door> {
  const address = listenAddress(listen);
  const upstream = upstreamAddress(url);
  const isItself = "port" in address && address.port === upstream.port &&
    upstream.hostnames.includes(address.hostname);
  if (isItself) {
    throw new Failure("invalid_input", `Cannot open the gate on ${listen}: that is where ${tenant} itself is`, {
      hint: "Choose another port for the gate, or correct the server's URL",
    });
  }
  const listener = await listenOn(address);
  if ("path" in address) guardSocket?.(address.path);
  return new Door({ tenant, upstream, admission, kept, clock, log }, address, listener);
}

async function listenOn(address: ListenAddress): Promise<Deno.Listener<Deno.Conn>> {
  try {
    if ("port" in address) return Deno.listen({ hostname: address.hostname, port: address.port });
    // The owner's lock is held by now: a socket that stands there was left by a service that is gone.
    await removeSocket(address.path);
    return Deno.listen({ transport: "unix", path: address.path });
  } catch (error) {
    const isTaken = error instanceof Deno.errors.AddrInUse;
    const where = urlOf(address);
    throw new Failure(
      "unavailable",
      `Cannot open the gate on ${where}: ${isTaken ? "the port is taken" : messageOf(error)}`,
      {
        hint: "Choose another address under [gate]",
        cause: error,
      },
    );
  }
}

async function removeSocket(path: string): Promise<void> {
  try {
    await Deno.remove(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

/** One listener with its connections. */
class Door {
  readonly url: string;
  readonly #side: DoorSide;
  readonly #address: ListenAddress;
  readonly #listener: Deno.Listener<Deno.Conn>;
  readonly #served = new Map<ClientConnection, Promise<void>>();
  readonly #accepting: Promise<void>;
  #isClosing = false;

  constructor(side: DoorSide, address: ListenAddress, listener: Deno.Listener<Deno.Conn>) {
    this.#side = side;
    this.#address = address;
    this.#listener = listener;
    this.url = urlOf("port" in address && "port" in listener.addr ? { ...address, port: listener.addr.port } : address);
    this.#accepting = this.#accept();
  }

  get open(): number {
    return this.#served.keys().reduce((count, { isIdle }) => isIdle ? count : count + 1, 0);
  }

  async #accept(): Promise<void> {
    while (!this.#isClosing) {
      let conn: Deno.Conn;
      try {
        conn = await this.#listener.accept();
      } catch (error) {
        if (this.#isClosing) return;
        this.#side.log.warn("Cannot take a connection in at the gate", { error: messageOf(error) });
        await this.#side.clock.sleep(ACCEPT_PAUSE_MS);
        continue;
      }
      if (this.#served.size >= MAX_CONNECTIONS) this.#served.keys().find(({ isIdle }) => isIdle)?.close();
      const connection = new ClientConnection(this.#side, new Socket(conn));
      const served = connection.serve().catch((error) => {
        const said = error instanceof Error ? error.stack ?? error.message : String(error);
        this.#side.log.error("Defect in a connection of the gate", { error: said });
      }).finally(() => this.#served.delete(connection));
      this.#served.set(connection, served);
    }
  }

  async close(signal: AbortSignal): Promise<void> {
    if (!this.#isClosing) this.#listener.close();
    this.#isClosing = true;
    await this.#accepting;
    for (const connection of this.#served.keys()) connection.end();
    // WebSockets have no end of their own: they go with the last request.
    const requests = [...this.#served].filter(([{ isTunnel }]) => !isTunnel).map(([, served]) => served);
    const aborted = Promise.withResolvers<void>();
    const onAbort = () => aborted.resolve();
    signal.addEventListener("abort", onAbort, { once: true });
    if (signal.aborted) onAbort();
    await Promise.race([Promise.all(requests), aborted.promise]);
    signal.removeEventListener("abort", onAbort);
    for (const connection of this.#served.keys()) connection.close();
    await Promise.all(this.#served.values());
    // Deno 2.4.2 leaves the socket's file behind.
    if ("path" in this.#address) await removeSocket(this.#address.path);
  }
}
