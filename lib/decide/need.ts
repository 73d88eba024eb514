/**
 * Whether a newcomer fits beside what is there (SPEC 2.2). Needs come from the request, the configuration, or what was
 * measured before; an unknown need counts as all of the card.
 */
import type { HolderShare } from "../model/arbitration.ts";
import type { Need } from "../model/footprints.ts";
import { canonical } from "../model/model_names.ts";
import type { Policy } from "../model/policy.ts";
import type { AttributedProcess, GpuState, Sample } from "../model/sample.ts";
import { type Bytes, toGib } from "../model/units.ts";
import type { Footprints } from "./footprint.ts";
import { counting, knownNeed } from "./footprint.ts";

/** The key under which ComfyUI's need is configured and learned. */
export const COMFY_KEY = "comfyui";

/** What a model (or ComfyUI) needs in all; null = unknown. */
export function needOf(name: string, policy: Policy, footprints: Footprints): Bytes | null {
  return findNeed(name, policy, footprints).bytes;
}

/** The same, with where it comes from. */
export function findNeed(name: string, policy: Policy, footprints: Footprints): Need {
  for (const [key, bytes] of Object.entries(policy.needs)) {
    if (key === name || canonical(key) === canonical(name)) return { bytes, basis: "configured", n: null };
  }
  const key = name === COMFY_KEY ? COMFY_KEY : canonical(name);
  const bytes = knownNeed(footprints, key);
  return { bytes, basis: bytes === null ? "unknown" : "measured", n: counting(footprints, key).length };
}

/** True when `needed` more bytes and the headroom are free; an unknown need or an unread card never fits. */
export function fits(
  neededBytes: Bytes | null,
  freeBytes: Bytes | null,
  policy: Policy,
): boolean {
  return neededBytes !== null && freeBytes !== null && neededBytes + policy.yield.headroomBytes <= freeBytes;
}

/** Free device memory by the driver; null when it can't be read. */
export function freeOf(gpu: GpuState): Bytes | null {
  return gpu.available ? gpu.reading.memory?.freeBytes ?? null : null;
}

/**
 * The same by a whole sample: a runner that has just died may stand in the driver's list for another 0.2 s, and holds
 * nothing that anybody could be asked for.
 */
export function holdersIn({ gpu, ollama, sources }: Sample): readonly HolderShare[] {
  const isDead = ({ bucket, pid }: AttributedProcess) =>
    bucket === "ollama" && sources.processes.ok && ollama.server !== null && pid !== ollama.server.pid &&
    !ollama.runners.some((runner) => runner.pid === pid);
  return holdersOf(gpu, isDead);
}

/** Who holds the card, largest first: what every "can't fit" names. */
export function holdersOf(
  gpu: GpuState,
  isLeftOut: (process: AttributedProcess) => boolean = () => false,
): readonly HolderShare[] {
  if (!gpu.available) return [];
  const { breakdown } = gpu;
  const shares: HolderShare[] = [];
  for (const bucket of ["ollama", "comfy", "desktop", "unmanaged"] as const) {
    const processes = breakdown.processes.filter((process) => process.bucket === bucket && !isLeftOut(process));
    const bytes = processes.reduce((sum, process) => sum + (process.usedBytes ?? 0), 0);
    if (processes.length === 0) continue;
    const who = processes.map((process) =>
      `pid ${process.pid} ${labelOf(process)} ${process.usedBytes === null ? "unknown" : toGib(process.usedBytes)} GB`
    );
    shares.push({ bucket, bytes, who });
  }
  if ((breakdown.unaccountedBytes ?? 0) > 0) {
    shares.push({ bucket: "unaccounted", bytes: breakdown.unaccountedBytes ?? 0, who: [] });
  }
  return shares.sort((a, b) => b.bytes - a.bytes);
}

const INTERPRETER = /^(python|node|deno|java|ruby|perl)[\d.]*$/;

/** An interpreter's name says nothing: what it runs is named as well ("python3 stt_relay"). */
function labelOf({ name, command }: Pick<AttributedProcess, "name" | "command">): string {
  if (!INTERPRETER.test(name) || command === null) return name;
  const script = command.split(" ").slice(1).find((word) => word !== "" && !word.startsWith("-"));
  return script === undefined ? name : `${name} ${script.slice(script.lastIndexOf("/") + 1)}`;
}

/** "unmanaged 0.842 GB (pid 4711 whisper 0.842 GB), …" */
export function describeHolders(shares: readonly HolderShare[]): string {
  if (shares.length === 0) return "nobody that can be seen";
  return shares.map((share) =>
    `${share.bucket} ${toGib(share.bytes)} GB${share.who.length === 0 ? "" : ` (${share.who.join(", ")})`}`
  ).join(", ");
}
