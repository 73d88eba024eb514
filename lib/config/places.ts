/** Where things stand when the configuration doesn't say: state, socket, and the lock that decides who owns the card. */
import type { Surroundings } from "./environment.ts";

/** What of the configuration places depend on. */
export interface PlacesOptions {
  readonly config: { readonly server: { readonly state_dir: string; readonly socket: string } };
  readonly surroundings: Surroundings;
}

export interface Places {
  readonly stateDir: string;
  readonly socketPath: string;
  readonly databasePath: string;
  /** Where a client looks for a service, in this order: its own user's, then the machine's. */
  readonly clientSockets: readonly string[];
}

const SYSTEM_SOCKET = "/run/hyperswap/hyperswap.sock";

/** `isRoot` decides between the system's places and the user's. */
export function placesOf({ config, surroundings }: PlacesOptions, isRoot: boolean): Places {
  const { stateDirectory, runtimeDirectory, xdgStateHome, xdgRuntimeDir, home } = surroundings;
  const userState = `${xdgStateHome ?? `${home ?? "/tmp"}/.local/state`}/hyperswap`;
  const stateDir = config.server.state_dir || stateDirectory || (isRoot ? "/var/lib/hyperswap" : userState);
  const runtimeDir = runtimeDirectory ?? (isRoot ? "/run/hyperswap" : xdgRuntimeDir ?? stateDir);
  const socketPath = config.server.socket || `${runtimeDir}/hyperswap.sock`;
  const isNamed = config.server.socket !== "" || config.server.state_dir !== "";
  return {
    stateDir,
    socketPath,
    clientSockets: isNamed || socketPath === SYSTEM_SOCKET ? [socketPath] : [socketPath, SYSTEM_SOCKET],
    databasePath: `${stateDir}/history.sqlite`,
  };
}
