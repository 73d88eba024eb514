import type { Proc, ProcEntry } from "../model/ports.ts";
import type { Tenant } from "../model/tenants.ts";
import { baseName, isOllamaServer, option } from "./runner_args.ts";

/** A server's process and how it was found, in words. */
export interface FoundServer {
  readonly process: ProcEntry;
  readonly evidence: string;
}

export interface ServerQuery {
  readonly tenant: Tenant;
  readonly port: number;
  /** ComfyUI's own command line from `/system_stats`; empty when not told. */
  readonly argv: readonly string[];
}

/** Programs that listen on behalf of a container. */
const PROXIES = new Set([
  "docker-proxy",
  "rootlessport",
  "rootlesskit",
  "slirp4netns",
  "pasta",
  "pasta.avx2",
  "conmon",
]);

const TITLES: Readonly<Record<Tenant, string>> = { ollama: "Ollama", comfyui: "ComfyUI" };

/**
 * Finds the process that serves a port: by its listening socket; behind a container's proxy, by the one process in
 * another cgroup whose arguments fit; where sockets can't be seen, by arguments alone. Several that fit are none:
 * a wrong guess would count a stranger's memory as reclaimable.
 */
export function findServer(proc: Proc, all: ReadonlyMap<number, ProcEntry>, query: ServerQuery): FoundServer | null {
  const owners = proc.listeners(query.port).flatMap((pid) => all.get(pid) ?? []).filter(isAlive);
  const owner = topmost(owners);
  const fits = [...all.values()].filter((entry) => isAlive(entry) && fitsTenant(entry, query));
  if (owner === null) {
    const only = single(topmostAll(fits));
    return only && { process: only, evidence: `${TITLES[query.tenant]} by its arguments` };
  }
  if (!PROXIES.has(owner.name)) {
    return { process: owner, evidence: `owns the listening socket of port ${query.port}` };
  }
  const contained = fits.filter(({ cgroup }) => cgroup !== null && cgroup !== owner.cgroup);
  const only = single(topmostAll(contained));
  return only && { process: only, evidence: `${TITLES[query.tenant]} in a container behind ${owner.name}` };
}

function fitsTenant(entry: ProcEntry, { tenant, argv, port }: ServerQuery): boolean {
  if (tenant === "ollama") return isOllamaServer(entry);
  if (argv.length > 0) return endsWith(entry.args, argv);
  return isComfyByArgs(entry, port);
}

/** The name python alone says nothing: the script must be main.py, and something about it ComfyUI's. */
function isComfyByArgs({ args, cwd }: ProcEntry, port: number): boolean {
  const script = args.find((arg, index) => index > 0 && baseName(arg) === "main.py");
  if (script === undefined) return false;
  const isFolder = /comfy/i.test(script.startsWith("/") ? script : cwd ?? "");
  return isFolder || option(args, "--port") === String(port);
}

/** `/system_stats` gives argv from the script on; the interpreter and its flags come before. */
function endsWith(args: readonly string[], tail: readonly string[]): boolean {
  const start = args.length - tail.length;
  return start >= 1 && tail.every((arg, index) => args[start + index] === arg);
}

/** A socket is shared with forked children: the parent of them all is meant. Process 1 hands sockets over, no more. */
function topmost(entries: readonly ProcEntry[]): ProcEntry | null {
  const own = entries.length > 1 ? entries.filter(({ pid }) => pid !== 1) : entries;
  return topmostAll(own)[0] ?? null;
}

function topmostAll(entries: readonly ProcEntry[]): readonly ProcEntry[] {
  const pids = new Set(entries.map(({ pid }) => pid));
  return entries.filter(({ parentPid }) => !pids.has(parentPid));
}

function single<T>(items: readonly T[]): T | null {
  return items.length === 1 ? items[0] ?? null : null;
}

/** A zombie has let go of its memory and its sockets. */
export function isAlive({ state }: Pick<ProcEntry, "state">): boolean {
  return state !== "Z" && state !== "X";
}
