import type { Clock } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import type { CardSpec } from "./card_spec.ts";
import type { GpuTable } from "./gpu_table.ts";
import type { ProcTree } from "./proc_tree.ts";
import type { Vram } from "./vram.ts";

/**
 * How quickly the simulated software is: `desktop` as measured on an RTX 4080 SUPER (the unload reply takes 63 ms, the
 * driver 77 ms more), `h200` as on an H200 (1.3 ms, and 200–260 ms more).
 */
export type Profile = "desktop" | "h200";

export interface BoxOptions {
  /** A LabClock, which a test advances, or the system clock. */
  readonly clock: Clock;
  /** An empty folder for the fixture /proc. */
  readonly dir: string;
  readonly seed?: number;
  readonly profile?: Profile;
  readonly ollamaVersion?: "0.24.0" | "0.33.0";
  readonly card?: CardSpec;
  /** Default 0: whatever is free. */
  readonly ollamaPort?: number;
  readonly comfyPort?: number;
}

/** A runner of the simulated Ollama, as it really is. */
export interface RunnerTruth {
  readonly pid: number;
  /** The name that loaded it. */
  readonly model: string;
  readonly state: "loading" | "idle" | "busy" | "stopping" | "crashed" | "orphan";
  readonly heldBytes: Bytes;
  readonly port: number;
}

/** What a test or the demo can do to the simulated Ollama beside asking it over HTTP. */
export interface OllamaControl {
  readonly url: string;
  readonly port: number;
  /** The server's process; null while it is down. */
  readonly pid: number | null;
  readonly runners: readonly RunnerTruth[];
  /** Ends the server; SIGKILL leaves its runners behind as orphans. */
  kill(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  /** Starts it again on the same port, with nothing loaded. */
  start(): Promise<void>;
  /** Kills a runner from outside: its row stays in `/api/ps`. */
  crashRunner(model: string): void;
}

export interface ComfyControl {
  readonly url: string;
  readonly port: number;
  readonly pid: number | null;
  kill(signal: "SIGTERM" | "SIGKILL"): Promise<void>;
  start(): Promise<void>;
}

/** A third program on the card that nobody can ask to yield. */
export interface ThirdPartyControl {
  readonly pid: number;
  /** Allocates and frees at random from now on. */
  start(): void;
  stop(): void;
}

/** A simulated machine: a card, its processes, both servers on real loopback sockets, a third program. */
export interface Box extends AsyncDisposable {
  readonly clock: Clock;
  readonly table: GpuTable;
  /** Who holds what; its log is the truth that confirmations are measured against. */
  readonly vram: Vram;
  readonly processes: ProcTree;
  /** Root of the fixture /proc. */
  readonly procRoot: string;
  readonly ollama: OllamaControl;
  readonly comfy: ComfyControl;
  readonly thirdParty: ThirdPartyControl;
}

/** Opens a box. Its servers answer at once; nothing is loaded. */
export function openBox(_options: BoxOptions): Promise<Box> {
  return Promise.reject(new Error("Cannot open a box: its servers are not built yet"));
}
