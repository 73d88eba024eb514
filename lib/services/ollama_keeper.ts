/** Ollama's part of the house: its server is asked, and its runners are looked for between the samples. */
import type { ArbiterEvent } from "../model/events.ts";
import type { Clock, Log, OllamaApi, Proc, Timer } from "../model/ports.ts";
import type { ProcessId } from "../model/tenants.ts";
import { type OllamaWatch, type OllamaWatchOptions, watchOllama } from "../sample/ollama_watch.ts";
import { watchRunners } from "../sample/runner_watch.ts";

export interface OllamaKeeperParts {
  readonly clock: Clock;
  readonly log: Log;
  readonly proc: Proc;
  readonly ollama: OllamaApi;
  readonly storeBlobs: NonNullable<OllamaWatchOptions["storeBlobs"]>;
  /** The server's process, as the newest sample has it. */
  readonly server: () => ProcessId | null;
  readonly send: (event: ArbiterEvent) => void;
}

export class OllamaKeeper {
  readonly watch: OllamaWatch;
  readonly #runners: Timer;

  constructor({ clock, log, proc, ollama, storeBlobs, server, send }: OllamaKeeperParts) {
    this.watch = watchOllama({ api: ollama, clock, storeBlobs });
    this.#runners = watchRunners({
      proc,
      clock,
      log,
      server,
      onChange: (runners) => send({ type: "runnersChanged", atMs: clock.monotonicMs(), runners }),
    });
  }

  stop(): void {
    this.watch.stop();
    this.#runners.stop();
  }
}
