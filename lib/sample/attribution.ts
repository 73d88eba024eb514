import type { ProcEntry } from "../model/ports.ts";
import type { AttributedProcess, Breakdown, GpuProcess } from "../model/sample.ts";
import type { Bucket } from "../model/tenants.ts";
import type { Bytes } from "../model/units.ts";
import { baseName } from "./runner_args.ts";
import { isAlive } from "./server_process.ts";
import type { TenantRole } from "./tenant_processes.ts";

/** Display servers and compositors, by program name; configuration overlays it. */
export const DEFAULT_DESKTOP: readonly string[] = [
  "Xorg",
  "Xwayland",
  "X",
  "Xvnc",
  "gnome-shell",
  "mutter",
  "kwin_wayland",
  "kwin_x11",
  "plasmashell",
  "cinnamon",
  "muffin",
  "marco",
  "xfwm4",
  "picom",
  "sway",
  "Hyprland",
  "weston",
  "labwc",
  "river",
  "niri",
  "cosmic-comp",
  "gamescope",
];

/** What a process was once recognised as, by `pid startTime`: a dying process loses its arguments and its parent. */
export type BucketMemory = ReadonlyMap<string, Remembered>;

interface Remembered {
  readonly bucket: Bucket;
  readonly evidence: string;
  readonly name: string;
  readonly command: string | null;
}

export interface AttributionInput {
  /** Used memory of the card; null when the driver doesn't say. */
  readonly usedBytes: Bytes | null;
  /** The driver's list; null when it could not be read. */
  readonly gpuProcesses: readonly GpuProcess[] | null;
  readonly smPctByPid: Readonly<Record<number, number>> | null;
  /** Null when /proc could not be read. */
  readonly processes: ReadonlyMap<number, ProcEntry> | null;
  readonly roles: ReadonlyMap<number, TenantRole>;
  readonly desktop: readonly string[];
  /** What the attribution before this one gave back. */
  readonly memory: BucketMemory;
}

export interface Attribution {
  readonly breakdown: Breakdown;
  readonly memory: BucketMemory;
}

export const NO_MEMORY: BucketMemory = new Map();

/** Says whose each process's VRAM is. Pure. */
export function attribute(input: AttributionInput): Attribution {
  const { usedBytes, gpuProcesses } = input;
  if (gpuProcesses === null) {
    // Whose it is can't be said, so it isn't said that nobody's is.
    return { breakdown: { ...emptyBuckets(null), unaccountedBytes: null, processes: [] }, memory: input.memory };
  }
  const memory = new Map<string, Remembered>();
  const processes = gpuProcesses.flatMap((gpuProcess) => attributeOne(gpuProcess, input, memory));
  const buckets = { ...emptyBuckets(0) };
  for (const { bucket, usedBytes: bytes } of processes) {
    const key = `${bucket}Bytes` as const;
    const sum = buckets[key];
    buckets[key] = sum === null || bytes === null ? null : sum + bytes;
  }
  const sum = Object.values(buckets).reduce<Bytes | null>(
    (total, bytes) => total === null || bytes === null ? null : total + bytes,
    0,
  );
  const unaccountedBytes = usedBytes === null || sum === null ? null : Math.max(0, usedBytes - sum);
  return { breakdown: { ...buckets, unaccountedBytes, processes }, memory };
}

type Buckets = Record<`${Bucket}Bytes`, Bytes | null>;

function emptyBuckets(bytes: Bytes | null): Buckets {
  return { ollamaBytes: bytes, comfyBytes: bytes, desktopBytes: bytes, unmanagedBytes: bytes };
}

/** One process, or none when it is gone: what it held then counts as accounted for by no process. */
function attributeOne(
  gpuProcess: GpuProcess,
  input: AttributionInput,
  memory: Map<string, Remembered>,
): readonly AttributedProcess[] {
  const { pid, usedBytes } = gpuProcess;
  const smPct = input.smPctByPid === null ? null : input.smPctByPid[pid] ?? 0;
  const entry = input.processes?.get(pid) ?? null;
  if (entry === null) {
    if (input.processes !== null && wasSeen(input.memory, pid)) return [];
    const evidence = input.processes === null
      ? "processes can't be read"
      : "not visible in /proc: hidden, or in another PID namespace";
    const unknown = { pid, startTime: 0, name: "unknown", command: null, bucket: "unmanaged" as const };
    return [{ ...unknown, usedBytes, smPct, evidence }];
  }
  if (!isAlive(entry)) return [];
  const key = `${pid} ${entry.startTime}`;
  const before = input.memory.get(key) ?? null;
  const isNamed = entry.args.length > 0 || before === null;
  const name = isNamed ? programName(entry) : before.name;
  const command = isNamed ? entry.args.join(" ") || null : before.command;
  const { bucket, evidence } = judge(entry, { ...input, before });
  memory.set(key, { bucket, evidence, name, command });
  return [{ pid, startTime: entry.startTime, name, command, bucket, usedBytes, smPct, evidence }];
}

/** A tenant's by what is seen now, else by what was seen before, else the desktop's by name, else nobody's we manage. */
function judge(
  entry: ProcEntry,
  { roles, desktop, before }: Pick<AttributionInput, "roles" | "desktop"> & { readonly before: Remembered | null },
): { readonly bucket: Bucket; readonly evidence: string } {
  const role = roles.get(entry.pid);
  if (role !== undefined) return role;
  if (before !== null && before.bucket !== "unmanaged") {
    const seen = "seen before: ";
    const evidence = before.evidence.startsWith(seen) ? before.evidence : seen + before.evidence;
    return { bucket: before.bucket, evidence };
  }
  const display = desktop.find((program) => isProgram(entry, program));
  if (display !== undefined) return { bucket: "desktop", evidence: `${display} is in the list of desktop programs` };
  return { bucket: "unmanaged", evidence: "neither tenant's: no relation to Ollama or ComfyUI was found" };
}

/** The kernel keeps 15 characters of a name. */
function isProgram(entry: ProcEntry, program: string): boolean {
  return programName(entry) === program || entry.name === program.slice(0, 15);
}

/** The executable's name: PyTorch renames the process itself. Some programs write all their arguments as one. */
function programName({ exe, args, name }: ProcEntry): string {
  if (exe !== null && exe !== "") return baseName(exe);
  const first = args[0] ?? "";
  return first === "" || first.includes(" ") ? name : baseName(first);
}

function wasSeen(memory: BucketMemory, pid: number): boolean {
  for (const key of memory.keys()) if (key.startsWith(`${pid} `)) return true;
  return false;
}
