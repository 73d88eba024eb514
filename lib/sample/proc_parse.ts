/** The kernel's text about processes and sockets → figures. Pure. */

/** What one line of /proc/PID/stat says, as far as it is needed. */
export interface ProcStat {
  readonly pid: number;
  /** Cut to 15 bytes by the kernel; may hold spaces and parentheses. */
  readonly name: string;
  readonly state: string;
  readonly parentPid: number;
  /** User + system time, clock ticks. */
  readonly cpuTicks: number;
  /** Clock ticks since boot. */
  readonly startTime: number;
  /**
   * Where the program's stack and arguments lie: another program in the same process has others. "0 0" where we may
   * not see it.
   */
  readonly image: string;
}

/** Parses /proc/PID/stat; null for text that isn't one. The name ends at the *last* parenthesis: it may hold some. */
export function parseStat(text: string): ProcStat | null {
  const open = text.indexOf(" (");
  const close = text.lastIndexOf(") ");
  if (open < 0 || close < open) return null;
  const fields = text.slice(close + 2).split(" ");
  // proc(5) counts from 1 and the state is field 3.
  const field = (number: number): string => fields[number - 3] ?? "0";
  const stat = {
    pid: Number(text.slice(0, open)),
    name: text.slice(open + 2, close),
    state: field(3),
    parentPid: Number(field(4)),
    cpuTicks: Number(field(14)) + Number(field(15)),
    startTime: Number(field(22)),
    image: `${field(28)} ${field(48)}`,
  };
  return Number.isFinite(stat.pid + stat.parentPid + stat.cpuTicks + stat.startTime) ? stat : null;
}

/** Parses /proc/PID/cmdline: arguments end in NUL. Empty for a kernel thread, a zombie or a dying process. */
export function parseArgs(text: string): readonly string[] {
  if (text === "") return [];
  return (text.endsWith("\0") ? text.slice(0, -1) : text).split("\0");
}

/** Where a process's program lies, without the kernel's note that the file was replaced meanwhile. */
export function parseExe(target: string): string {
  return target.endsWith(" (deleted)") ? target.slice(0, -" (deleted)".length) : target;
}

/** Parses /proc/uptime into clock ticks since boot; null for text that isn't one. */
export function parseUptimeTicks(text: string, ticksPerSecond: number): number | null {
  const seconds = Number.parseFloat(text);
  return Number.isFinite(seconds) ? Math.floor(seconds * ticksPerSecond) : null;
}

const LISTENING = "0A";

/** Inodes of the sockets that listen on `port`, from /proc/net/tcp or tcp6. */
export function parseListeners(text: string, port: number): readonly string[] {
  const suffix = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const inodes: string[] = [];
  for (const line of text.split("\n")) {
    // The cheap test first: a busy server has thousands of connections in this table.
    if (!line.includes(suffix)) continue;
    const [, local, , state, , , , , , inode] = line.trim().split(/\s+/);
    if (state === LISTENING && local?.endsWith(suffix) && inode !== undefined && inode !== "0") inodes.push(inode);
  }
  return inodes;
}

/** "socket:[4711]" → "4711"; null for a link to something else. */
export function parseSocketLink(target: string): string | null {
  return target.startsWith("socket:[") && target.endsWith("]") ? target.slice("socket:[".length, -1) : null;
}
