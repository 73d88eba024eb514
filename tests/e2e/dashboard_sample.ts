/** One second of a believable box, for the dashboard's own tests: a 16 GB card whose sums add up. */
import type { Stats } from "../../lib/operations/stats.ts";

const NOW_S = 1_764_600_000;

/** Ollama holds a 27B model, ComfyUI is idle, a third party and a desktop are on the card as well. */
export function sampleStats(): Stats {
  return {
    timestamp: NOW_S,
    revision: 1,
    simulated: true,
    simulation: "SIMULATED box: no real GPU, no real servers",
    gpu: sampleGpu(),
    ram: {
      total_gb: 62.6,
      used_gb: 11.4,
      cached_gb: 43.1,
      free_gb: 8.1,
      available_gb: 50.2,
      cache_ratio_pct: 68.8,
      model_files_gb: null,
      model_files_total_gb: null,
      model_residency_pct: null,
      model_files_measured_at: null,
      swap_total_gb: 8,
      swap_used_gb: 0.1,
    },
    ollama: sampleOllama(),
    comfyui: sampleComfy(),
    arbitration: {
      mode: "auto",
      until: null,
      keep: [],
      holder: "ollama",
      lane: null,
      waiting: [],
      watching: [],
      stuck: [],
      insisters: [],
      comfyui_worker: null,
      gate: { ollama: null, comfyui: null },
      held: [],
      gate_counts: { passed: 0, held: 0, refused: 0, lapsed: 0, open: {}, retried: 0 },
      hand_offs: 12,
      late_hand_offs: 1,
      last_margin_ms: 812,
    },
    tuning: sampleTuning(),
    history: sampleHistory(),
    runs: [],
    sources: {
      nvml: source(),
      meminfo: source(),
      processes: source(),
      ollama: source(),
      comfyui: source(),
    },
  };
}

function sampleTuning(): Stats["tuning"] {
  const lever = (name: NonNullable<Stats["tuning"]>["levers"][number]["lever"], value: number | "stock" | null) => ({
    lever: name,
    wanted: value,
    read_back: value,
    verdict: value === null ? null : "honoured",
  });
  return {
    available: true,
    reason: null,
    active_profile: "ollama",
    active_by: "auto",
    why: "Ollama works",
    automatic: true,
    levers: [
      lever("power_limit_w", 320),
      lever("lock_core_mhz", null),
      lever("lock_mem_mhz", null),
      lever("core_offset_mhz", null),
      lever("mem_offset_mhz", null),
      lever("fan", "stock"),
    ],
    governor: { enabled: true, level: 0, rung: "stock", blind: false, reason: "cool so far" },
    quarantine: [],
    drift: [],
    confirm: null,
  };
}

function source(): Stats["sources"]["nvml"] {
  return { ok: true, duration_ms: 2, last_error: null, last_ok_at: null };
}

function sampleGpu(): Stats["gpu"] {
  return {
    available: true,
    state: "ok",
    reason: null,
    remedy: null,
    device_name: "NVIDIA GeForce RTX 4080 SUPER",
    uuid: "GPU-5c3a6a3e",
    driver_version: "595.84",
    vram_total_gb: 15.992,
    vram_used_gb: 14.2,
    vram_free_gb: 1.5,
    vram_used_pct: 88.8,
    gpu_util_pct: 34,
    memory_util_pct: 61,
    temperature_c: 58,
    memory_temperature_c: null,
    slowdown_c: 93,
    power_w: 188.4,
    power_limit_w: 320,
    fan_pct: 42,
    pstate: "P2",
    throttle_reasons: ["sw_power_cap"],
    throttled_ms: {
      sw_power_cap: 84_210,
      sw_thermal_slowdown: 0,
      hw_thermal_slowdown: 0,
      hw_power_brake_slowdown: 0,
    },
    clocks: { graphics_mhz: 2610, sm_mhz: 2610, memory_mhz: 11251, video_mhz: 2010 },
    pcie: { gen: 4, width: 16, max_gen: 4, max_width: 16 },
    breakdown: {
      ollama_gb: 11.99,
      comfyui_gb: 0.8,
      desktop_gb: 0.31,
      unmanaged_gb: 0.82,
      unaccounted_gb: 0.28,
      free_gb: 1.5,
      processes: [
        {
          pid: 48211,
          name: "llama-server",
          bucket: "ollama",
          vram_gb: 11.99,
          sm_pct: 33,
          evidence: "Child of the process that listens on port 11434",
        },
        {
          pid: 3920,
          name: "whisper-relay",
          bucket: "unmanaged",
          vram_gb: 0.82,
          sm_pct: 0,
          evidence: "No tenant owns it",
        },
        {
          pid: 5120,
          name: "python3",
          bucket: "comfy",
          vram_gb: 0.8,
          sm_pct: 0,
          evidence: "Listens on port 8188",
        },
        { pid: 1411, name: "kwin_wayland", bucket: "desktop", vram_gb: 0.31, sm_pct: null, evidence: "A compositor" },
      ],
    },
  };
}

function sampleOllama(): Stats["ollama"] {
  const local = { family: "qwen3", quantization: "Q4_K_M", is_remote: false };
  return {
    online: true,
    url: "http://127.0.0.1:11434",
    reason: null,
    is_remote: false,
    version: "0.33.0",
    active_model_name: "qwen3.6:27b",
    active_model_vram_gb: 11.99,
    active_model_vram_basis: "driver",
    loaded_models: [{
      name: "qwen3.6:27b",
      vram_gb: 11.99,
      reported_vram_gb: 11.4,
      memory_gb: 11.4,
      spilled: false,
      context_length: 16384,
      expires_at: new Date((NOW_S + 1_560) * 1_000).toISOString(),
      pid: 48211,
    }],
    installed_models: [
      { ...local, name: "qwen3.6:27b", size_gb: 12.87, parameter_size: "27B" },
      { ...local, name: "gemma4:12b", size_gb: 8.1, parameter_size: "12B" },
      { ...local, name: "nomic-embed:latest", size_gb: 0.27, parameter_size: "137M" },
    ],
  };
}

function sampleComfy(): Stats["comfyui"] {
  return {
    online: true,
    url: "http://127.0.0.1:8188",
    reason: null,
    is_remote: false,
    version: "0.3.64",
    socket: "open",
    executing: false,
    queue_remaining: 0,
    running_prompt_id: null,
    idle_since: new Date((NOW_S - 12) * 1_000).toISOString(),
    progress: null,
    vram_gb: 0.8,
    vram_free_mb: 2210,
  };
}

function sampleHistory(): Stats["history"] {
  const at = (agoS: number) => new Date((NOW_S - agoS) * 1_000).toISOString();
  const released = { outcome: "released", confirmed_by: "NVML: process gone and memory back, twice" };
  return [
    { id: 5, at: at(20), kind: "profile", cause: "workload", message: "Ollama works" },
    {
      id: 4,
      at: at(38),
      kind: "swap",
      model: "qwen3.6:27b",
      load_ms: 4901,
      gb_per_s: 2.63,
      class: "ram_hit",
      cause: "switch-model",
    },
    {
      id: 3,
      at: at(52),
      kind: "purge",
      ...released,
      request_ms: 3.1,
      confirm_ms: 1312,
      freed_gb: 8.9,
      cause: "comfy_idle",
    },
    {
      id: 2,
      at: at(140),
      kind: "yield",
      ...released,
      request_ms: 1.3,
      confirm_ms: 231,
      freed_gb: 11.9,
      margin_ms: -174,
      late: true,
      consequence: "ComfyUI allocated 174 ms before the memory was back: it may have loaded only part of its model",
      remedy: "Purge ComfyUI and run that prompt again",
      models: ["qwen3.6:27b"],
      cause: "comfy_enqueued",
    },
    {
      id: 1,
      at: at(300),
      kind: "yield",
      ...released,
      request_ms: 1.6,
      confirm_ms: 214,
      freed_gb: 11.9,
      margin_ms: 812,
      models: ["qwen3.6:27b"],
      cause: "comfy_enqueued",
    },
  ];
}
