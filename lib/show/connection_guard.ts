/**
 * Ends connections that only take up room: such as send their headers a byte a minute, or rest for ever. The runtime has
 * no limit of its own and hands over a request only once its head is whole, so what is open is asked of the kernel.
 */
import type { Clock, Timer } from "../model/ports.ts";

/** One open connection to our port. */
export interface Line {
  /** The port at the other end; with one client address, its name. */
  readonly peerPort: number;
  /** What the kernel knows it by. */
  readonly inode: string;
}

/** The kernel's connections of this process. */
export interface Lines {
  list(port: number): readonly Line[];
  /** Both ends see the connection's end. */
  end(lines: readonly Line[]): void;
}

export interface GuardOptions {
  readonly clock: Clock;
  readonly lines: Lines;
  readonly port: number;
  readonly maxConnections?: number;
}

/** From the connection's first moment to the end of its first request's head. */
const HEAD_MS = 15_000;
/** Between two requests. */
const REST_MS = 75_000;
const SWEEP_MS = 5_000;
/** Connections at once; beyond, those without a request are ended, whatever their age. */
const MAX_CONNECTIONS = 2_048;

interface Known {
  /** Requests under way. */
  active: number;
  /** When the last request ended, or the connection was first seen. */
  sinceMs: number;
  hasAsked: boolean;
}

export class ConnectionGuard {
  readonly #options: GuardOptions;
  readonly #known = new Map<number, Known>();
  readonly #timer: Timer;

  constructor(options: GuardOptions) {
    this.#options = options;
    this.#timer = options.clock.every(SWEEP_MS, () => this.sweep());
  }

  /** A request came whole; call what is returned when it has been answered. */
  begin(peerPort: number): () => void {
    const known = this.#at(peerPort);
    known.active += 1;
    known.hasAsked = true;
    return () => {
      known.active -= 1;
      known.sinceMs = this.#options.clock.monotonicMs();
    };
  }

  sweep(): void {
    const { clock, lines, port, maxConnections = MAX_CONNECTIONS } = this.#options;
    const open = lines.list(port);
    const ports = new Set(open.map(({ peerPort }) => peerPort));
    for (const [peerPort, { active }] of this.#known) {
      if (active === 0 && !ports.has(peerPort)) this.#known.delete(peerPort);
    }
    const nowMs = clock.monotonicMs();
    const isCrowded = open.length > maxConnections;
    const idle = open.filter(({ peerPort }) => {
      const { active, hasAsked, sinceMs } = this.#at(peerPort);
      return active === 0 && (isCrowded || nowMs - sinceMs >= (hasAsked ? REST_MS : HEAD_MS));
    });
    if (idle.length > 0) lines.end(idle);
  }

  stop(): void {
    this.#timer.stop();
  }

  #at(peerPort: number): Known {
    const known = this.#known.get(peerPort) ??
      { active: 0, sinceMs: this.#options.clock.monotonicMs(), hasAsked: false };
    this.#known.set(peerPort, known);
    return known;
  }
}
