/** The card in full: what changes each second, and what stays true of it. */
import * as z from "zod";
import type { GpuState } from "../model/sample.ts";
import { round, toGib } from "../model/units.ts";
import { BreakdownWire, GpuProcessWire, GpuStatsWire, viewGpuStats } from "./gpu_view.ts";
import { define } from "./operation.ts";
import { gib } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

const FanWire = z.object({
  pct: z.number().nullable().describe("live speed, %"),
  target_pct: z.number().nullable(),
  rpm: z.number().nullable(),
  policy: z.enum(["auto", "manual"]).nullable(),
});

export const GpuWire = GpuStatsWire.extend({
  index: z.int().nullable(),
  pci_bus_id: z.string().nullable(),
  nvml_version: z.string().nullable(),
  cuda_version: z.string().nullable(),
  vram_reserved_gb: gib("what the driver keeps for itself, beside used and free", null),
  energy_j: z.number().nullable().describe("since the driver was loaded, J"),
  fans: z.array(FanWire),
  limits: z.object({
    power_default_w: z.number().nullable(),
    power_min_w: z.number().nullable(),
    power_max_w: z.number().nullable(),
    slowdown_c: z.number().nullable(),
    shutdown_c: z.number().nullable(),
    memory_max_c: z.number().nullable(),
    fan_min_pct: z.number().nullable(),
    fan_max_pct: z.number().nullable(),
    graphics_max_mhz: z.number().nullable(),
    memory_max_mhz: z.number().nullable(),
  }),
  pcie_rx_kbps: z.number().nullable().describe("to the card, KB/s"),
  pcie_tx_kbps: z.number().nullable().describe("from the card, KB/s"),
  breakdown: BreakdownWire.extend({
    processes: z.array(GpuProcessWire.extend({ command: z.string().nullable() })),
  }),
});

/** The card under the names of `/api/gpu`; what can't be read is null. */
export function viewGpu(gpu: GpuState): z.output<typeof GpuWire> {
  const { facts } = gpu;
  const reading = gpu.available ? gpu.reading : null;
  const base = viewGpuStats(gpu);
  const commands = new Map(gpu.available ? gpu.breakdown.processes.map(({ pid, command }) => [pid, command]) : []);
  return {
    ...base,
    index: facts?.index ?? null,
    pci_bus_id: facts?.pciBusId ?? null,
    nvml_version: facts?.nvmlVersion ?? null,
    cuda_version: facts?.cudaVersion ?? null,
    vram_reserved_gb: toGib(reading?.memory?.reservedBytes ?? null),
    energy_j: round(reading?.energyJ ?? null, 0),
    fans: (reading?.fans ?? []).map((fan) => ({
      pct: fan.pct,
      target_pct: fan.targetPct,
      rpm: fan.rpm,
      policy: fan.policy,
    })),
    limits: viewLimits(gpu),
    pcie_rx_kbps: reading?.pcie.rxKbps ?? null,
    pcie_tx_kbps: reading?.pcie.txKbps ?? null,
    breakdown: {
      ...base.breakdown,
      processes: base.breakdown.processes.map((process) => ({
        ...process,
        command: commands.get(process.pid) ?? null,
      })),
    },
  };
}

function viewLimits({ facts }: GpuState) {
  return {
    power_default_w: facts?.power.defaultLimitW ?? null,
    power_min_w: facts?.power.minLimitW ?? null,
    power_max_w: facts?.power.maxLimitW ?? null,
    slowdown_c: facts?.thresholds.slowdownC ?? null,
    shutdown_c: facts?.thresholds.shutdownC ?? null,
    memory_max_c: facts?.thresholds.memoryMaxC ?? null,
    fan_min_pct: facts?.fanMinPct ?? null,
    fan_max_pct: facts?.fanMaxPct ?? null,
    graphics_max_mhz: facts?.maxGraphicsMhz ?? null,
    memory_max_mhz: facts?.maxMemoryMhz ?? null,
  };
}

export const gpu = define({
  name: "gpu",
  summary: "The card: sensors, clocks, throttle reasons, and who holds how much of its VRAM",
  access: "read",
  input: z.object({}),
  output: GpuWire,
  fails: ["unavailable"],
  http: ROUTES.gpu,
  cli: { words: ["gpu"] },
  tool: { name: "get_gpu_status", idempotent: true },
  handle: (services) => viewGpu(services.live.snapshot().sample.gpu),
});
