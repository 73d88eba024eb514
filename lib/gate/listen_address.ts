/** Where a side of the gate stands: loopback, or a unix socket. */
import { Failure } from "../model/failure.ts";
import { isLoopbackHost } from "../upstream/locality.ts";

export type ListenAddress = { readonly hostname: string; readonly port: number } | { readonly path: string };

/** Failure: it can't be read, or strangers could reach it. The upstreams have no tokens, so neither has the gate. */
export function listenAddress(text: string): ListenAddress {
  if (text.startsWith("unix:/")) return { path: text.slice("unix:".length) };
  const [, bracketed, bare, digits] = /^(?:\[([0-9a-fA-F:]+)\]|([^:/[\]]+)):([0-9]{1,5})$/.exec(text) ?? [];
  const hostname = bracketed ?? bare;
  const port = Number(digits);
  if (hostname === undefined || port > 65_535) {
    throw new Failure("invalid_input", `Cannot open the gate on "${text}": it is no address`, {
      hint: 'Write it as "127.0.0.1:11435" or "unix:/run/hyperswap/ollama.sock"',
    });
  }
  if (!isLoopbackHost(hostname) || hostname === "0.0.0.0" || hostname === "::") {
    throw new Failure("invalid_input", `Cannot open the gate on "${text}": others could reach it`, {
      hint: "Use a loopback address: whoever reaches the gate may use the server behind it",
    });
  }
  return { hostname: hostname === "localhost" ? "127.0.0.1" : hostname, port };
}

export function urlOf(address: ListenAddress): string {
  if ("path" in address) return `unix:${address.path}`;
  return `http://${address.hostname.includes(":") ? `[${address.hostname}]` : address.hostname}:${address.port}`;
}
