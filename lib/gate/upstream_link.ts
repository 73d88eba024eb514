/** Connections to the server that the gate stands before. */
import { Failure, messageOf } from "../model/failure.ts";
import { clientUrl, portOf } from "../upstream/locality.ts";
import { Socket } from "./socket.ts";

export interface UpstreamAddress {
  /** Tried in this order: "localhost" may mean two. */
  readonly hostnames: readonly string[];
  readonly port: number;
}

/** Where a configured URL leads. Failure: the gate can't stand before that. */
export function upstreamAddress(url: string): UpstreamAddress {
  const { protocol, hostname, pathname } = new URL(clientUrl(url));
  if (protocol !== "http:" || pathname !== "/") {
    throw new Failure("invalid_input", `Cannot open a gate before ${url}: it passes on plain HTTP without a path`, {
      hint: "Leave that side of [gate] out, or name the server itself",
    });
  }
  const bare = hostname.replace(/^\[(.*)\]$/, "$1");
  return { hostnames: bare === "localhost" ? ["127.0.0.1", "::1"] : [bare], port: portOf(url) };
}

/** The server can't be reached. The message is for the client. */
export class Unreached extends Error {
  override readonly name = "Unreached";
}

/** Opens a connection; when the signal aborts first, it is closed as soon as it stands. */
export async function connectUpstream(address: UpstreamAddress, signal: AbortSignal | null): Promise<Socket> {
  let cause: unknown = null;
  for (const hostname of address.hostnames) {
    const left = Promise.withResolvers<never>();
    const onAbort = () => left.reject(signal?.reason);
    const opened = Deno.connect({ hostname, port: address.port });
    try {
      signal?.throwIfAborted();
      signal?.addEventListener("abort", onAbort, { once: true });
      return new Socket(await Promise.race([opened, left.promise]));
    } catch (error) {
      opened.then((conn) => conn.close(), () => {});
      signal?.throwIfAborted();
      cause = error;
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }
  const isRefused = cause instanceof Deno.errors.ConnectionRefused;
  const where = `${address.hostnames[0]}:${address.port}`;
  throw new Unreached(`Cannot reach ${where}: ${isRefused ? "connection refused" : messageOf(cause)}`, { cause });
}
