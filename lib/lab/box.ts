import type { Clock } from "../model/ports.ts";
import type { CardSpec } from "./card_spec.ts";
import type { GpuTable } from "./gpu_table.ts";
import type { OllamaServer } from "./ollama_server.ts";
import type { ProcTree } from "./proc_tree.ts";
import type { Profile } from "./timing.ts";
import type { Vram } from "./vram.ts";

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
  readonly ollama: OllamaServer;
  readonly comfy: ComfyControl;
  readonly thirdParty: ThirdPartyControl;
}

/** Opens a box. Its servers answer at once; nothing is loaded. */
export function openBox(_options: BoxOptions): Promise<Box> {
  return Promise.reject(new Error("Cannot open a box: its servers are not built yet"));
}
