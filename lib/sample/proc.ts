/** Processes as /proc shows them. */
import type { Libc } from "../../ffi/libc.ts";
import type { Proc, ProcEntry } from "../model/ports.ts";
import { Listeners } from "./listeners.ts";
import { parseArgs, parseExe, parseStat, parseUptimeTicks, type ProcStat } from "./proc_parse.ts";
import { unlessGone } from "./vanishing.ts";

/** What stays the same as long as a process runs the same program. */
interface Identity {
  readonly stat: Pick<ProcStat, "startTime" | "name" | "image">;
  readonly args: readonly string[];
  readonly exe: string | null;
  readonly cwd: string | null;
  readonly cgroup: string | null;
}

/**
 * Between fork and exec a child shows its parent's arguments under its own pid and start time, so what a process younger
 * than this says of itself isn't kept.
 */
const NEWBORN_SECONDS = 2;

/** Opens the /proc under `root` (a plain folder in tests and in the lab). */
export function openProc(libc: Libc, root: string): Proc {
  return new ProcFolder(libc, root);
}

class ProcFolder implements Proc {
  readonly #libc: Libc;
  readonly #root: string;
  readonly #listeners: Listeners;
  #identities = new Map<number, Identity>();

  constructor(libc: Libc, root: string) {
    this.#libc = libc;
    this.#root = root;
    this.#listeners = new Listeners(libc, root);
  }

  get ticksPerSecond(): number {
    return this.#libc.ticksPerSecond;
  }

  read(path: string): string {
    return this.#libc.readText(`${this.#root}/${path}`);
  }

  process(pid: number): ProcEntry | null {
    const entry = this.#entry(pid, this.#settledBefore());
    if (entry === null) this.#identities.delete(pid);
    return entry?.entry ?? null;
  }

  pids(): readonly number[] {
    return this.#libc.list(this.#root).map(Number).filter((pid) => Number.isInteger(pid) && pid > 0);
  }

  list(): readonly ProcEntry[] {
    const settledBefore = this.#settledBefore();
    const entries: ProcEntry[] = [];
    const identities = new Map<number, Identity>();
    for (const pid of this.pids()) {
      const found = this.#entry(pid, settledBefore);
      if (found === null) continue;
      entries.push(found.entry);
      if (found.kept !== null) identities.set(pid, found.kept);
    }
    this.#identities = identities;
    return entries;
  }

  listeners(port: number): readonly number[] {
    return this.#listeners.pids(port);
  }

  /** One process, and what may be kept of it. One read a process, once its identity is known. */
  #entry(pid: number, settledBefore: number): { readonly entry: ProcEntry; readonly kept: Identity | null } | null {
    const text = unlessGone(() => this.read(`${pid}/stat`));
    const stat = text === null ? null : parseStat(text);
    if (stat === null) return null;
    const identity = this.#identity(pid, stat);
    if (identity === null) return null;
    const kept = stat.startTime < settledBefore ? identity : null;
    if (kept === null) this.#identities.delete(pid);
    else this.#identities.set(pid, kept);
    const { args, exe, cwd, cgroup } = identity;
    const { name, state, parentPid, startTime, cpuTicks } = stat;
    return { entry: { pid, startTime, parentPid, state, name, args, exe, cwd, cgroup, cpuTicks }, kept };
  }

  #identity(pid: number, stat: ProcStat): Identity | null {
    const known = this.#identities.get(pid)?.stat;
    const isSame = known?.startTime === stat.startTime && known.name === stat.name && known.image === stat.image;
    // A zombie has lost its arguments: what it was is for those to remember who saw it alive.
    if (isSame && stat.state !== "Z") return this.#identities.get(pid) ?? null;
    const cmdline = unlessGone(() => this.read(`${pid}/cmdline`));
    if (cmdline === null) return null;
    const exe = unlessGone(() => this.#libc.readLink(`${this.#root}/${pid}/exe`));
    return {
      stat,
      args: parseArgs(cmdline),
      exe: exe === null ? null : parseExe(exe),
      cwd: unlessGone(() => this.#libc.readLink(`${this.#root}/${pid}/cwd`)),
      cgroup: unlessGone(() => this.read(`${pid}/cgroup`).trim()),
    };
  }

  /** Start times before this belong to processes old enough; 0 (none) where the uptime can't be told. */
  #settledBefore(): number {
    const text = unlessGone(() => this.read("uptime"));
    const uptime = text === null ? null : parseUptimeTicks(text, this.ticksPerSecond);
    return uptime === null ? 0 : uptime - NEWBORN_SECONDS * this.ticksPerSecond;
  }
}
