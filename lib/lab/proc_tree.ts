import type { Clock } from "../model/ports.ts";
import type { ProcessId } from "../model/tenants.ts";
import { type HostFigures, meminfoText, statText, statusText, tcpText } from "./proc_text.ts";

/** Above what most boxes ever hand out, so that a lab's pid is told from a real one at a glance. */
const FIRST_PID = 900_001;
/** Where the folders of processes that are gone wait to be deleted. No number, so no reader takes it for a process. */
const GONE = "gone";
const FIRST_INODE = 4_100_001;
const TICKS_PER_SECOND = 100;
/** How long the simulated box had been up when its clock started. */
const UPTIME_MS = 3 * 86_400_000;

export interface ProcessSpec {
  readonly parentPid: number;
  /** comm: at most 15 bytes count. */
  readonly name: string;
  readonly args: readonly string[];
  readonly exe: string;
  readonly cwd: string;
  readonly cgroup: string;
  readonly uid: number;
}

/** A simulated process as it stands in the folder. */
export interface LabProcess extends ProcessId, ProcessSpec {
  readonly state: "S" | "R" | "D" | "T" | "Z";
  readonly cpuTicks: number;
  readonly rssBytes: number;
  readonly ports: readonly number[];
}

type Change = Partial<Omit<LabProcess, "pid" | "startTime" | "ports">>;

/**
 * A folder that reads like /proc for the lab's processes. Files are replaced by renaming, so a reader in another thread
 * never meets half of one; a process that goes takes its folder along, as in the real one.
 */
export class ProcTree {
  readonly root: string;
  readonly #clock: Clock;
  readonly #bootMs: number;
  readonly #processes = new Map<number, LabProcess>();
  readonly #inodes = new Map<number, number>();
  #nextPid = FIRST_PID;
  #nextInode = FIRST_INODE;
  #lastStart = 0;
  #isClosed = false;

  constructor({ root, clock }: { readonly root: string; readonly clock: Clock }) {
    this.root = root;
    this.#clock = clock;
    this.#bootMs = clock.monotonicMs() - UPTIME_MS;
    Deno.mkdirSync(`${root}/net`, { recursive: true });
    Deno.mkdirSync(`${root}/${GONE}`);
    this.#write(`${root}/net/tcp6`, tcpText([]));
    this.#writeSockets();
  }

  get(pid: number): LabProcess | null {
    return this.#processes.get(pid) ?? null;
  }

  get all(): readonly LabProcess[] {
    return [...this.#processes.values()];
  }

  spawn(spec: ProcessSpec): LabProcess {
    const startTime = Math.max(this.#lastStart + 1, this.#ticksNow());
    this.#lastStart = startTime;
    const entry: LabProcess = {
      ...spec,
      pid: this.#nextPid++,
      startTime,
      state: "S",
      cpuTicks: 3,
      rssBytes: 64e6,
      ports: [],
    };
    this.#processes.set(entry.pid, entry);
    this.#clearGone();
    Deno.mkdirSync(`${this.#folder(entry.pid)}/fd`, { recursive: true });
    this.#writeAll(entry);
    return entry;
  }

  /** Nothing happens when the process is gone. */
  change(pid: number, change: Change): void {
    const before = this.#processes.get(pid);
    if (before === undefined) return;
    const after = { ...before, ...change };
    this.#processes.set(pid, after);
    this.#writeAll(after);
  }

  /** Adds processor time, in seconds; only `stat` changes. */
  work(pid: number, cpuSeconds: number): void {
    const before = this.#processes.get(pid);
    if (before === undefined) return;
    const after = { ...before, cpuTicks: before.cpuTicks + Math.round(cpuSeconds * TICKS_PER_SECOND) };
    this.#processes.set(pid, after);
    this.#write(`${this.#folder(pid)}/stat`, statText(after));
  }

  /** A process on its way out: no command line any more, but the kernel is still closing its files (the card's too). */
  makeDying(pid: number): void {
    this.#takeMemory(pid, "D");
  }

  /** What is left of a process whose parent hasn't asked after it. */
  makeZombie(pid: number): void {
    this.#takeMemory(pid, "Z");
  }

  /** Children go to init, as when their parent is killed. */
  orphanChildren(parentPid: number): void {
    for (const entry of this.all) if (entry.parentPid === parentPid) this.change(entry.pid, { parentPid: 1 });
  }

  exit(pid: number): void {
    const entry = this.#processes.get(pid);
    if (entry === undefined) return;
    for (const port of entry.ports) this.#inodes.delete(port);
    this.#processes.delete(pid);
    if (this.#isClosed) return;
    // One call, so that no reader meets half a process; deleting its files takes 3–7 ms, in which the lab stands still.
    Deno.renameSync(this.#folder(pid), `${this.root}/${GONE}/${pid}`);
    if (entry.ports.length > 0) this.#writeSockets();
  }

  /** Shows that process as the owner of a listening socket on 127.0.0.1. */
  listen(pid: number, port: number): void {
    const before = this.#processes.get(pid);
    if (before === undefined) return;
    const inode = this.#nextInode++;
    this.#inodes.set(port, inode);
    this.#processes.set(pid, { ...before, ports: [...before.ports, port] });
    Deno.symlinkSync(`socket:[${inode}]`, `${this.#folder(pid)}/fd/${3 + before.ports.length}`);
    this.#writeSockets();
  }

  /** The folder is its owner's again: whatever still ends or moves in the box is no longer written. */
  close(): void {
    this.#isClosed = true;
  }

  setHost(figures: HostFigures): void {
    this.#write(`${this.root}/meminfo`, meminfoText(figures));
  }

  #takeMemory(pid: number, state: "D" | "Z"): void {
    this.change(pid, { state, args: [], rssBytes: 0 });
    if (this.#isClosed) return;
    for (const link of ["exe", "cwd"]) removeIfThere(`${this.#folder(pid)}/${link}`);
  }

  #ticksNow(): number {
    return Math.floor((this.#clock.monotonicMs() - this.#bootMs) / 1_000 * TICKS_PER_SECOND);
  }

  #folder(pid: number): string {
    return `${this.root}/${pid}`;
  }

  #writeAll(entry: LabProcess): void {
    const folder = this.#folder(entry.pid);
    this.#write(`${folder}/stat`, statText(entry));
    this.#write(`${folder}/status`, statusText(entry));
    this.#write(`${folder}/comm`, `${entry.name.slice(0, 15)}\n`);
    this.#write(`${folder}/cmdline`, entry.args.map((arg) => `${arg}\0`).join(""));
    this.#write(`${folder}/cgroup`, `0::${entry.cgroup}\n`);
    if (entry.state === "Z" || entry.state === "D") return;
    this.#link(`${folder}/exe`, entry.exe);
    this.#link(`${folder}/cwd`, entry.cwd);
  }

  #writeSockets(): void {
    const rows = [...this.#inodes].map(([port, inode]) => ({ port, inode, uid: this.#uidOf(port) }));
    this.#write(`${this.root}/net/tcp`, tcpText(rows));
  }

  /** The folders of those that went since the last one came. */
  #clearGone(): void {
    if (this.#isClosed) return;
    const gone = `${this.root}/${GONE}`;
    for (const { name } of Deno.readDirSync(gone)) Deno.removeSync(`${gone}/${name}`, { recursive: true });
  }

  #uidOf(port: number): number {
    return this.all.find((entry) => entry.ports.includes(port))?.uid ?? 0;
  }

  #write(path: string, text: string): void {
    if (this.#isClosed) return;
    Deno.writeTextFileSync(`${path}~`, text);
    Deno.renameSync(`${path}~`, path);
  }

  #link(path: string, target: string): void {
    if (this.#isClosed) return;
    removeIfThere(`${path}~`);
    Deno.symlinkSync(target, `${path}~`);
    Deno.renameSync(`${path}~`, path);
  }
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (cause) {
    if (!(cause instanceof Deno.errors.NotFound)) throw cause;
  }
}
