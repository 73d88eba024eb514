/** `hyperswap status` and `hyperswap gpu` for people. */
import type { Operations } from "../operations/registry.ts";
import { renderEvents } from "./cli_events.ts";
import { labelled, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Answer<N extends keyof Operations> = Operations[N]["output"];

/** The whole box on one screen. */
export function renderStats(stats: Answer<"stats">, style: Style): string {
  const { gpu, ram, ollama, comfyui, arbitration } = stats;
  const { breakdown } = gpu;
  const parts = [
    ["ollama", breakdown.ollama_gb],
    ["comfyui", breakdown.comfyui_gb],
    ["desktop", breakdown.desktop_gb],
    ["unmanaged", breakdown.unmanaged_gb],
    ["unaccounted", breakdown.unaccounted_gb],
  ] as const;
  const held = parts.filter(([, gb]) => gb !== 0).map(([name, gb]) => `${name} ${quantity(gb, "", 2)}`).join(" · ");
  const lines: [string, string][] = [
    ["GPU", gpu.available ? style.bold(gpu.device_name ?? "unnamed") : style.bad(`${gpu.state}: ${gpu.reason ?? ""}`)],
    ...(gpu.remedy === null ? [] : [["", `hint: ${gpu.remedy}`] as [string, string]]),
    ...(gpu.available
      ? [
        ["VRAM", `${vramLine(gpu)}  ${style.dim(held)}`] as [string, string],
        ["Card", cardLine(gpu, style)] as [string, string],
      ]
      : []),
    ["RAM", ram === null ? "–" : ramLine(ram)],
    ["Ollama", ollamaLine(ollama, style)],
    ["ComfyUI", comfyLine(comfyui, style)],
    ["Arbiter", arbiterLine(arbitration, style)],
  ];
  const failing = Object.entries(stats.sources).filter(([, source]) => !source.ok && source.last_error !== null);
  for (const [name, source] of failing) lines.push([name, style.warn(source.last_error ?? "")]);
  const events = stats.history.slice(0, 5);
  return labelled(lines, style) + (events.length === 0 ? "" : `\n${renderEvents(events, style)}`);
}

function vramLine(gpu: Answer<"stats">["gpu"]): string {
  return `${quantity(gpu.vram_used_gb, "", 2)} of ${quantity(gpu.vram_total_gb, "GiB", 2)} used` +
    ` (${quantity(gpu.vram_used_pct, "%", 0)}), ${quantity(gpu.vram_free_gb, "GiB", 2)} free`;
}

export function cardLine(gpu: Answer<"stats">["gpu"], style: Style): string {
  const throttled = (gpu.throttle_reasons ?? []).filter((reason) => reason !== "gpu_idle");
  return [
    quantity(gpu.gpu_util_pct, "%"),
    quantity(gpu.temperature_c, "°C"),
    `${quantity(gpu.power_w, "", 0)} of ${quantity(gpu.power_limit_w, "W", 0)}`,
    ...(gpu.fan_pct === null ? [] : [`fan ${gpu.fan_pct} %`]),
    `${quantity(gpu.clocks.graphics_mhz)} / ${quantity(gpu.clocks.memory_mhz, "MHz")}`,
    ...(throttled.length === 0 ? [] : [style.warn(`throttled: ${throttled.join(", ")}`)]),
  ].join("  ");
}

function ramLine(ram: NonNullable<Answer<"stats">["ram"]>): string {
  return `${ram.used_gb.toFixed(1)} of ${ram.total_gb.toFixed(1)} GiB used, page cache ${
    ram.cached_gb.toFixed(1)
  } GiB, ` +
    `available ${ram.available_gb.toFixed(1)} GiB`;
}

export function ollamaLine(ollama: Answer<"stats">["ollama"], style: Style): string {
  if (!ollama.online) return style.warn(`offline at ${ollama.url}: ${ollama.reason ?? "no answer"}`);
  const loaded = ollama.loaded_models.map((model) =>
    `${style.bold(model.name)} ${quantity(model.vram_gb ?? model.reported_vram_gb, "GiB", 2)}${
      model.spilled ? style.warn(" spilled") : ""
    }`
  );
  return loaded.length === 0 ? `idle, ${ollama.installed_models.length} models installed` : loaded.join(", ");
}

export function comfyLine(comfyui: Answer<"stats">["comfyui"], style: Style): string {
  if (!comfyui.online) return style.warn(`offline at ${comfyui.url}: ${comfyui.reason ?? "no answer"}`);
  const state = comfyui.executing === null ? "state unknown" : comfyui.executing ? style.bold("executing") : "idle";
  const { progress } = comfyui;
  return [
    state + (progress === null ? "" : ` ${progress.value}/${progress.max}`),
    `queue ${quantity(comfyui.queue_remaining)}`,
    quantity(comfyui.vram_gb, "GiB", 2),
  ].join(", ");
}

export function arbiterLine(view: Answer<"stats">["arbitration"], style: Style): string {
  return [
    view.mode === "auto" ? view.mode : style.warn(view.mode),
    `held by ${view.holder ?? "nobody"}`,
    ...(view.lane === null ? [] : [style.bold(`${view.lane.job}: ${view.lane.phase}`)]),
    ...(view.waiting.length === 0 ? [] : [`${view.waiting.length} waiting`]),
    ...(view.late_hand_offs === 0 ? [] : [style.warn(`${view.late_hand_offs} of ${view.hand_offs} hand-offs late`)]),
  ].join(", ");
}

/** The card, and who is on it. */
export function renderGpu(gpu: Answer<"gpu">, style: Style): string {
  if (!gpu.available) return `${style.bad(`${gpu.state}: ${gpu.reason ?? ""}`)}\nhint: ${gpu.remedy ?? "none known"}\n`;
  const { limits } = gpu;
  return labelled([
    ["Card", `${style.bold(gpu.device_name ?? "unnamed")}  ${style.dim(gpu.uuid ?? "")}`],
    ["Driver", `${gpu.driver_version ?? "–"}, CUDA ${gpu.cuda_version ?? "–"}`],
    ["VRAM", vramLine(gpu)],
    ["Now", cardLine(gpu, style)],
    [
      "Power",
      `${quantity(gpu.power_w, "W")}, limit ${quantity(gpu.power_limit_w, "W")} (${quantity(limits.power_min_w)} to ${
        quantity(limits.power_max_w, "W")
      })`,
    ],
    ["Held back", heldLine(gpu.throttled_ms)],
    [
      "PCIe",
      `gen ${quantity(gpu.pcie.gen)} × ${quantity(gpu.pcie.width)}, at most gen ${quantity(gpu.pcie.max_gen)} × ${
        quantity(gpu.pcie.max_width)
      }`,
    ],
  ], style) + "\n" + table(
    ["PID", "NAME", "BUCKET", "VRAM", "SM", "WHY"],
    gpu.breakdown.processes.map((process) => [
      String(process.pid),
      process.name,
      process.bucket,
      quantity(process.vram_gb, "GiB", 3),
      quantity(process.sm_pct, "%"),
      process.evidence,
    ]),
    { style, empty: "No process on the card" },
  );
}

/** How long each cause has held the clocks back since the driver was loaded. */
function heldLine(held: Answer<"gpu">["throttled_ms"]): string {
  const known = Object.entries(held).flatMap(([cause, ms]) =>
    ms === null ? [] : [`${cause} ${(ms / 1000).toFixed(1)} s`]
  );
  return known.length === 0 ? "the driver doesn't count it" : known.join(", ");
}
