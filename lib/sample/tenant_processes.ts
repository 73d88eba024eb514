import type { Clock, Proc, ProcEntry } from "../model/ports.ts";
import { isSameProcess, type ProcessId, type Runner, type Tenant } from "../model/tenants.ts";
import type { MonotonicMs } from "../model/units.ts";
import { isOllamaRunner, parseRunnerArgs, type RunnerArgs } from "./runner_args.ts";
import { findServer, type FoundServer, isAlive } from "./server_process.ts";

export interface TenantProcessesOptions {
  readonly proc: Proc;
  readonly clock: Clock;
  /** Port of each upstream's URL; null when it is on another host, where none of its processes are. */
  readonly ollamaPort: number | null;
  readonly comfyPort: number | null;
}

/** What the upstreams themselves tell. */
export interface TenantHints {
  /** False: nobody answers there, so nobody is looked for by arguments. */
  readonly isOllamaOnline: boolean;
  readonly isComfyOnline: boolean;
  /** ComfyUI's own command line. */
  readonly comfyArgv: readonly string[];
}

/** Why a process counts as a tenant's, in words. */
export interface TenantRole {
  readonly bucket: "ollama" | "comfy";
  readonly evidence: string;
}

/** One pass over /proc. */
export interface TenantReading {
  readonly ollamaServer: ProcessId | null;
  readonly comfyServer: ProcessId | null;
  readonly runners: readonly Runner[];
  /** By pid: tenants' processes only. */
  readonly roles: ReadonlyMap<number, TenantRole>;
  /** By pid: every process, zombies included. */
  readonly processes: ReadonlyMap<number, ProcEntry>;
}

export interface TenantProcesses {
  /** Reads /proc, synchronously. Throws what the port throws. */
  read(hints: TenantHints): TenantReading;
}

/**
 * Finding a listener means reading every process's descriptors. It is done at once when the one that was found is gone
 * or somebody begins to answer; else this often, in case the port has changed hands, or where none was found.
 */
const LOOK_AGAIN_MS = 30_000;
const LOOK_FOR_ANY_MS = 5_000;

/** Orphans fall to process 1, or to the nearest process that asked to be their reaper. */
const REAPERS = new Set(["systemd", "init", "tini", "docker-init", "dumb-init", "catatonit", "s6-svscan", "runit"]);

export function tenantProcesses(options: TenantProcessesOptions): TenantProcesses {
  return new ProcessWatcher(options);
}

interface KnownServer {
  readonly found: FoundServer | null;
  readonly isOnline: boolean;
  readonly atMs: MonotonicMs;
}

interface KnownRunner extends ProcessId {
  readonly args: RunnerArgs;
}

class ProcessWatcher implements TenantProcesses {
  readonly #options: TenantProcessesOptions;
  readonly #servers = new Map<Tenant, KnownServer>();
  /** Runners of our server, by pid: a dying one loses its arguments, an orphan its parent. */
  #runners = new Map<number, KnownRunner>();

  constructor(options: TenantProcessesOptions) {
    this.#options = options;
  }

  read(hints: TenantHints): TenantReading {
    const { ollamaPort, comfyPort } = this.#options;
    const processes = new Map(this.#options.proc.list().map((entry) => [entry.pid, entry]));
    const ollama = this.#server(processes, {
      tenant: "ollama",
      port: ollamaPort,
      isOnline: hints.isOllamaOnline,
      argv: [],
    });
    const comfy = this.#server(processes, {
      tenant: "comfyui",
      port: comfyPort,
      isOnline: hints.isComfyOnline,
      argv: hints.comfyArgv,
    });
    const children = childrenByParent(processes);
    const roles = new Map<number, TenantRole>();
    if (comfy !== null) noteFamily(roles, { server: comfy, children, processes, bucket: "comfy" });
    if (ollama !== null) noteFamily(roles, { server: ollama, children, processes, bucket: "ollama" });
    const runners = ollamaPort === null ? [] : this.#readRunners(processes, roles);
    for (const runner of runners) roles.set(runner.pid, runnerRole(runner, ollama));
    return {
      ollamaServer: ollama && idOf(ollama.process),
      comfyServer: comfy && idOf(comfy.process),
      runners,
      roles,
      processes,
    };
  }

  #server(
    processes: ReadonlyMap<number, ProcEntry>,
    query: { tenant: Tenant; port: number | null; isOnline: boolean; argv: readonly string[] },
  ): FoundServer | null {
    const { tenant, port, argv, isOnline } = query;
    if (port === null) return null;
    const nowMs = this.#options.clock.monotonicMs();
    const known = this.#servers.get(tenant);
    if (known !== undefined && isStillTrue(known, { processes, isOnline, nowMs })) return known.found;
    const found = findServer(this.#options.proc, processes, { tenant, port, argv });
    // By arguments alone it may serve another port, unless someone answers on this one.
    const isOurs = found !== null && (isOnline || found.evidence.startsWith("owns"));
    const server = isOurs ? found : null;
    this.#servers.set(tenant, { found: server, isOnline, atMs: nowMs });
    return server;
  }

  #readRunners(processes: ReadonlyMap<number, ProcEntry>, roles: ReadonlyMap<number, TenantRole>): readonly Runner[] {
    const known = new Map<number, KnownRunner>();
    const runners: Runner[] = [];
    for (const entry of processes.values()) {
      if (!isAlive(entry)) continue;
      const isChild = roles.get(entry.pid)?.bucket === "ollama";
      const before = this.#runners.get(entry.pid);
      const remembered = before !== undefined && isSameProcess(before, entry) ? before.args : null;
      const isOrphan = !isChild && isOrphaned(entry, processes);
      const isOurs = isChild || remembered !== null || (isOrphan && isOllamaRunner(entry));
      const args = isOurs ? parseRunnerArgs(entry) ?? remembered : null;
      if (args === null) continue;
      known.set(entry.pid, { ...idOf(entry), args });
      runners.push({ ...idOf(entry), ...args, isOrphan, cpuTicks: entry.cpuTicks });
    }
    this.#runners = known;
    return runners;
  }
}

function isStillTrue(
  { found, isOnline: wasOnline, atMs }: KnownServer,
  now: {
    readonly processes: ReadonlyMap<number, ProcEntry>;
    readonly isOnline: boolean;
    readonly nowMs: MonotonicMs;
  },
): boolean {
  const ageMs = now.nowMs - atMs;
  if (found === null) return ageMs < LOOK_FOR_ANY_MS && now.isOnline === wasOnline;
  const process = now.processes.get(found.process.pid);
  return ageMs < LOOK_AGAIN_MS && process !== undefined && isAlive(process) && isSameProcess(process, found.process);
}

/** Its parent is gone, and was replaced by whoever takes orphans. */
function isOrphaned(entry: ProcEntry, processes: ReadonlyMap<number, ProcEntry>): boolean {
  if (entry.parentPid <= 1) return true;
  const parent = processes.get(entry.parentPid);
  return parent === undefined || REAPERS.has(parent.name);
}

function runnerRole(runner: Runner, server: FoundServer | null): TenantRole {
  const what = runner.modelName ?? (runner.blob === null ? "unnamed model" : `blob ${runner.blob.slice(0, 19)}…`);
  const whose = runner.isOrphan || server === null
    ? "orphaned: its server is gone"
    : `child of the Ollama server (pid ${server.process.pid})`;
  return { bucket: "ollama", evidence: `${runner.generation} of ${what}, ${whose}` };
}

/** The server, all that descend from it, and what shares its container. */
function noteFamily(
  roles: Map<number, TenantRole>,
  family: {
    readonly server: FoundServer;
    readonly children: ReadonlyMap<number, readonly number[]>;
    readonly processes: ReadonlyMap<number, ProcEntry>;
    readonly bucket: TenantRole["bucket"];
  },
): void {
  const { server: { process: server, evidence }, children, processes, bucket } = family;
  roles.set(server.pid, { bucket, evidence });
  const title = bucket === "ollama" ? "the Ollama server" : "ComfyUI";
  const queue = [...children.get(server.pid) ?? []];
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    if (roles.has(pid)) continue;
    roles.set(pid, { bucket, evidence: `descends from ${title} (pid ${server.pid})` });
    queue.push(...children.get(pid) ?? []);
  }
  if (!evidence.includes("container")) return;
  for (const { pid, cgroup } of processes.values()) {
    if (cgroup !== server.cgroup || roles.has(pid)) continue;
    roles.set(pid, { bucket, evidence: `in the container of ${title} (pid ${server.pid})` });
  }
}

function childrenByParent(processes: ReadonlyMap<number, ProcEntry>): ReadonlyMap<number, readonly number[]> {
  const children = new Map<number, number[]>();
  for (const { pid, parentPid } of processes.values()) {
    const siblings = children.get(parentPid);
    if (siblings === undefined) children.set(parentPid, [pid]);
    else siblings.push(pid);
  }
  return children;
}

function idOf({ pid, startTime }: ProcessId): ProcessId {
  return { pid, startTime };
}
