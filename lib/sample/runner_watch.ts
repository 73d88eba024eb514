import { messageOf } from "../model/failure.ts";
import type { Clock, Log, Proc, Timer } from "../model/ports.ts";
import { isSameProcess, type ProcessId, type Runner } from "../model/tenants.ts";
import { parseRunnerArgs, type RunnerArgs } from "./runner_args.ts";

/** How often the server's children are looked for: a load that is refused sooner than this stays unseen. */
export const RUNNER_WATCH_MS = 250;

/** Looks at a child that doesn't say what it runs: for some ms after the fork it shows its server's command line. */
const NEWBORN_LOOKS = 3;

export interface RunnerWatchOptions {
  readonly proc: Proc;
  readonly clock: Clock;
  readonly log: Log;
  /** The Ollama server, as last found; null where it isn't known. */
  readonly server: () => ProcessId | null;
  /** Called with all of them whenever one has come or gone. */
  readonly onChange: (runners: readonly Runner[]) => void;
}

/**
 * Watches for Ollama's runners to come and go, between the samples. It reads the names of /proc and only the processes
 * that are new, so that four looks a second cost next to nothing.
 */
export function watchRunners(options: RunnerWatchOptions): Timer {
  const watch = new RunnerWatcher(options);
  return options.clock.every(RUNNER_WATCH_MS, () => watch.look());
}

interface KnownRunner extends ProcessId {
  readonly args: RunnerArgs;
}

class RunnerWatcher {
  readonly #options: RunnerWatchOptions;
  #server: ProcessId | null = null;
  /** Pids that were looked at, and how often they still will be. */
  #seen = new Map<number, number>();
  #runners: readonly KnownRunner[] = [];
  #isBroken = false;

  constructor(options: RunnerWatchOptions) {
    this.#options = options;
  }

  look(): void {
    const { proc, log } = this.#options;
    try {
      this.#follow(new Set(proc.pids()));
      this.#isBroken = false;
    } catch (error) {
      // The sampler says each second that /proc can't be read; once is enough here.
      if (!this.#isBroken) log.debug("Cannot look for runners", { error: messageOf(error) });
      this.#isBroken = true;
    }
  }

  #follow(pids: ReadonlySet<number>): void {
    const server = this.#options.server();
    const isSame = server !== null && this.#server !== null && isSameProcess(server, this.#server);
    if (!isSame) this.#seen.clear();
    this.#server = server;
    const before = this.#runners;
    const runners = before.filter((runner) => this.#isAlive(runner, pids));
    // Its pid may belong to another child already.
    for (const runner of before) if (!runners.includes(runner)) this.#seen.delete(runner.pid);
    if (server !== null) {
      const known = new Set(runners.map(({ pid }) => pid));
      for (const pid of pids) if (!known.has(pid)) runners.push(...this.#meet(pid, server));
    }
    for (const pid of this.#seen.keys()) if (!pids.has(pid)) this.#seen.delete(pid);
    this.#runners = runners;
    const isChanged = runners.length !== before.length || runners.some((runner, at) => runner !== before[at]);
    if (isChanged) this.#options.onChange(runners.map(asRunner));
  }

  #isAlive(runner: KnownRunner, pids: ReadonlySet<number>): boolean {
    if (!pids.has(runner.pid)) return false;
    const entry = this.#options.proc.process(runner.pid);
    return entry !== null && entry.state !== "Z" && entry.state !== "X" && isSameProcess(entry, runner);
  }

  /** A pid that isn't known as a runner: what it is, if it is a child of the server. */
  #meet(pid: number, server: ProcessId): readonly KnownRunner[] {
    const looks = this.#seen.get(pid) ?? NEWBORN_LOOKS;
    if (looks === 0) return [];
    const entry = this.#options.proc.process(pid);
    const isChild = entry !== null && entry.parentPid === server.pid && entry.state !== "Z";
    const args = isChild ? parseRunnerArgs(entry) : null;
    this.#seen.set(pid, isChild && args === null ? looks - 1 : 0);
    return entry === null || args === null ? [] : [{ pid, startTime: entry.startTime, args }];
  }
}

/** Its CPU time is the sampler's to tell. */
function asRunner({ pid, startTime, args }: KnownRunner): Runner {
  return { pid, startTime, ...args, isOrphan: false, cpuTicks: null };
}
