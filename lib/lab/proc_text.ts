/** The kernel's text formats, as the lab writes them. */
import type { LabProcess } from "./proc_tree.ts";

/** Host memory in bytes. Page cache is what could be dropped; applications are what couldn't. */
export interface HostFigures {
  readonly totalBytes: number;
  readonly applicationBytes: number;
  readonly cachedBytes: number;
}

const PAGE_BYTES = 4_096;

/** proc(5), /proc/PID/stat: 52 fields; field 4 is the parent, 14 and 15 the processor time, 22 the start, 24 the RSS. */
export function statText(entry: LabProcess): string {
  const userTicks = Math.round(entry.cpuTicks * 0.8);
  const before = [entry.parentPid, entry.pid, entry.pid, 0, -1, 4_194_560, 21_455, 0, 12, 0, userTicks];
  const middle = [entry.cpuTicks - userTicks, 0, 0, 20, 0, 9, 0, entry.startTime, entry.rssBytes * 3];
  const rest = [Math.round(entry.rssBytes / PAGE_BYTES), "18446744073709551615", 1, 1, 0, 0, 0, 0, 0, 4_096, 81_923];
  const tail = [0, 0, 0, 17, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
  const numbers = [...before, ...middle, ...rest, ...tail].join(" ");
  return `${entry.pid} (${entry.name.slice(0, 15)}) ${entry.state} ${numbers}\n`;
}

const STATE_WORDS = {
  S: "S (sleeping)",
  R: "R (running)",
  D: "D (disk sleep)",
  T: "T (stopped)",
  Z: "Z (zombie)",
} as const;

export function statusText(entry: LabProcess): string {
  const lines = [
    `Name:\t${entry.name.slice(0, 15)}`,
    "Umask:\t0022",
    `State:\t${STATE_WORDS[entry.state]}`,
    `Tgid:\t${entry.pid}`,
    "Ngid:\t0",
    `Pid:\t${entry.pid}`,
    `PPid:\t${entry.parentPid}`,
    "TracerPid:\t0",
    `Uid:\t${entry.uid}\t${entry.uid}\t${entry.uid}\t${entry.uid}`,
    `Gid:\t${entry.uid}\t${entry.uid}\t${entry.uid}\t${entry.uid}`,
    `VmRSS:\t${kib(entry.rssBytes)}`,
    "Threads:\t9",
  ];
  return `${lines.join("\n")}\n`;
}

export interface ListeningSocket {
  readonly port: number;
  readonly inode: number;
  readonly uid: number;
}

/** /proc/net/tcp: address as little-endian hex, 0A = listening. */
export function tcpText(sockets: readonly ListeningSocket[]): string {
  const head =
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode                                                     ";
  const rows = sockets.map(({ port, inode, uid }, index) => {
    const local = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
    const slot = String(index).padStart(4);
    const owner = String(uid).padStart(5);
    return `${slot}: ${local} 00000000:0000 0A 00000000:00000000 00:00000000 00000000 ${owner}        0 ${inode} 1 0000000000000000 100 0 0 10 0`;
  });
  return `${[head, ...rows].join("\n")}\n`;
}

export function meminfoText(host: HostFigures): string {
  const freeBytes = Math.max(0, host.totalBytes - host.applicationBytes - host.cachedBytes);
  const buffers = Math.min(host.cachedBytes, 300e6);
  const reclaimable = Math.min(host.cachedBytes - buffers, 900e6);
  const shmem = 180e6;
  const rows: readonly (readonly [string, number])[] = [
    ["MemTotal", host.totalBytes],
    ["MemFree", freeBytes],
    ["MemAvailable", freeBytes + host.cachedBytes * 0.97],
    ["Buffers", buffers],
    ["Cached", host.cachedBytes - buffers - reclaimable + shmem],
    ["SwapCached", 0],
    ["Active", host.applicationBytes],
    ["Inactive", host.cachedBytes],
    ["SwapTotal", 8e9],
    ["SwapFree", 8e9],
    ["Dirty", 1e6],
    ["Shmem", shmem],
    ["Slab", reclaimable + 300e6],
    ["SReclaimable", reclaimable],
    ["SUnreclaim", 300e6],
  ];
  return `${rows.map(([name, bytes]) => `${`${name}:`.padEnd(16)}${kib(bytes)}`).join("\n")}\n`;
}

function kib(bytes: number): string {
  return `${String(Math.round(bytes / 1_024)).padStart(8)} kB`;
}
