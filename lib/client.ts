/**
 * Where a command's call goes: to the running service, looked for at its socket and its port. Only where there is none is
 * the rest of the program loaded, to read without one.
 */
import { loadConfig } from "./config/load.ts";
import { placesOf } from "./config/places.ts";
import { Failure } from "./model/failure.ts";
import { hostUrl } from "./model/host_url.ts";
import type { CliAddress } from "./show/cli_commands.ts";
import { findService } from "./show/http_invoker.ts";
import type { Invoker } from "./show/invoker.ts";
import { systemClock } from "./system/clock.ts";

/** The service that these flags name, else the one that the configuration does, else none: then only reads work. */
export async function findInvoker(address: CliAddress): Promise<Invoker> {
  const { token, isBare = false, ...places } = address;
  const named = Object.entries(places).flatMap(([name, value]) => value === null ? [] : [[name, value] as const]);
  const loaded = loadConfig({ flags: Object.fromEntries(named) });
  const { config, surroundings } = loaded;
  const isPortNamed = address.host !== null || address.port !== null;
  const isSocketNamed = address.socket !== null;
  const { host, port } = config.server;
  const { clientSockets } = placesOf(loaded, Deno.uid() === 0);
  const search = await findService({
    socketPaths: isBare || (isPortNamed && !isSocketNamed) ? [] : clientSockets,
    url: isSocketNamed && !isPortNamed ? null : hostUrl(host, port),
    token: sendable(token ?? (isBare ? null : surroundings.token)),
  }, systemClock());
  if (search.invoker !== null) return search.invoker;
  // Who names a service wants that one's word, not what this machine looks like from here.
  if (isPortNamed || isSocketNamed) {
    throw new Failure("unavailable", `No HyperSwap service answers there: ${search.tried.join("; ")}`, {
      hint: "Start it with hyperswap serve, or leave --host, --port and --socket out to look for one",
    });
  }
  const { openReadingInvoker } = await import("./app.ts");
  return openReadingInvoker(named.map(([name, value]) => `--${name}=${value}`), isBare);
}

/** A token that no header can hold would be told in the runtime's own complaint. */
function sendable(token: string | null): string | null {
  if (token === null || /^[!-~]+$/.test(token)) return token;
  throw new Failure("invalid_input", "Cannot send this token: it is empty, or holds spaces or line breaks", {
    hint: "Check --token, or HYPERSWAP_TOKEN in the environment",
  });
}
