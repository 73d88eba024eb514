import { messageOf } from "../model/failure.ts";
import type { Log } from "../model/ports.ts";

export interface SdNotifyOptions {
  /** `$NOTIFY_SOCKET`: a path, or `@name` for an abstract socket. Null: not run by systemd, every call does nothing. */
  readonly socketPath: string | null;
  /**
   * Sends one datagram to a unix socket; a leading `@` stands for the abstract namespace. Throws when it can't. A
   * parameter because only libc reaches abstract sockets.
   */
  readonly sendDatagram: (socketPath: string, payload: Uint8Array<ArrayBuffer>) => void;
  readonly log: Log;
}

/** What systemd is told (sd_notify(3)). Nothing here throws: a service is not ended by a deaf supervisor. */
export interface SdNotify {
  /** Started: units ordered after this one may start. */
  ready(status: string): void;
  /** Alive. To be sent by completed ticks, so that a hung service is restarted. */
  watchdog(): void;
  /** One line for `systemctl status`. */
  status(status: string): void;
  /** Reading the configuration again; `ready` ends it. */
  reloading(monotonicUs: bigint): void;
  stopping(status: string): void;
}

/** Tells systemd how the service is; the first message it can't deliver is logged, later ones are not. */
export function sdNotify(options: SdNotifyOptions): SdNotify {
  const { socketPath, sendDatagram, log } = options;
  const encoder = new TextEncoder();
  let wasTold = false;
  const send = (...lines: readonly string[]) => {
    if (socketPath === null) return;
    try {
      sendDatagram(socketPath, encoder.encode(lines.join("\n")));
    } catch (error) {
      if (wasTold) return;
      wasTold = true;
      log.warn(`Cannot notify systemd on ${socketPath}: ${messageOf(error)}`, {
        hint: "With WatchdogSec= in the unit, systemd will restart the service",
      });
    }
  };
  return {
    ready: (status) => send("READY=1", statusLine(status)),
    watchdog: () => send("WATCHDOG=1"),
    status: (status) => send(statusLine(status)),
    reloading: (monotonicUs) => send("RELOADING=1", `MONOTONIC_USEC=${monotonicUs}`),
    stopping: (status) => send("STOPPING=1", statusLine(status)),
  };
}

/** A line feed would start another assignment. */
function statusLine(status: string): string {
  return `STATUS=${status.replaceAll(/[\r\n]+/g, " ")}`;
}
