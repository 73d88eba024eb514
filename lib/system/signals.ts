import type { Timer } from "../model/ports.ts";

export interface SignalCallbacks {
  /** TERM and INT: end in order. The name says which; a second one of the same kind calls again. */
  readonly onStop: (signal: "SIGTERM" | "SIGINT") => void;
  /** HUP: read the configuration again. */
  readonly onReload: () => void;
}

/**
 * Listens for TERM, INT and HUP until stopped; while it listens they no longer end the process by themselves.
 * Never SIGUSR1: the runtime opens a debugger on it, listener or not.
 */
export function watchSignals(callbacks: SignalCallbacks): Timer {
  const onTerm = () => callbacks.onStop("SIGTERM");
  const onInt = () => callbacks.onStop("SIGINT");
  const onHup = () => callbacks.onReload();
  Deno.addSignalListener("SIGTERM", onTerm);
  Deno.addSignalListener("SIGINT", onInt);
  Deno.addSignalListener("SIGHUP", onHup);
  return {
    stop: () => {
      Deno.removeSignalListener("SIGTERM", onTerm);
      Deno.removeSignalListener("SIGINT", onInt);
      Deno.removeSignalListener("SIGHUP", onHup);
    },
  };
}
