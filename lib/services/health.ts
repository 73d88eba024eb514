/** Health: each check says what was found, what that breaks, and how to fix it (SPEC 8). */
import type { ArbitrationView } from "../model/arbitration.ts";
import type { StoreStatus } from "../model/history.ts";
import { round } from "../model/units.ts";
import type { GpuState, Sample } from "../model/sample.ts";
import type { CheckState, Health, HealthCheck, HealthReport } from "../model/services.ts";
import type { ComfyState, UpstreamLink } from "../model/tenants.ts";
import { checkArbitration } from "./arbitration_health.ts";

export interface HealthParts {
  /** Null before the first sample. */
  readonly sample: () => Sample | null;
  readonly arbitration: () => ArbitrationView;
  /** The store's word, as last heard; null before the first. */
  readonly store: () => StoreStatus | null;
  /** Whether the gate can hold anybody; left out where there is none. */
  readonly gate?: () => HealthCheck;
  /** Whether the card stands as it was set; left out where nothing sets it. */
  readonly tuning?: () => HealthCheck;
  /** What is known of model files; left out where none are looked for. */
  readonly cache?: () => readonly HealthCheck[];
}

export class HealthService implements Health {
  readonly #parts: HealthParts;

  constructor(parts: HealthParts) {
    this.#parts = parts;
  }

  report(): HealthReport {
    const sample = this.#parts.sample();
    const checks = sample === null ? [starting()] : [
      checkNvml(sample.gpu),
      checkAttribution(sample),
      checkUpstream("ollama", sample.ollama),
      checkUpstream("comfyui", sample.comfy),
      checkComfySocket(sample.comfy),
      checkMemory(sample),
      ...this.#parts.cache?.() ?? [],
      checkStore(this.#parts.store()),
      checkHandOffs(this.#parts.arbitration()),
      ...(this.#parts.gate === undefined ? [] : [this.#parts.gate()]),
      ...checkArbitration(this.#parts.arbitration(), sample),
      ...(this.#parts.tuning === undefined ? [] : [this.#parts.tuning()]),
    ];
    return { state: worst(checks), checks };
  }
}

function worst(checks: readonly HealthCheck[]): HealthReport["state"] {
  if (checks.some((check) => check.state === "broken")) return "broken";
  return checks.some((check) => check.state === "degraded") ? "degraded" : "ok";
}

function check(name: string, state: CheckState, finding: string, ...[breaks, remedy]: [string?, string?]): HealthCheck {
  return { name, state, finding, breaks: breaks ?? null, remedy: remedy ?? null };
}

function starting(): HealthCheck {
  return check(
    "sampler",
    "degraded",
    "The first sample isn't in yet",
    "Nothing can be shown or decided",
    "Ask again in a second",
  );
}

function checkNvml(gpu: GpuState): HealthCheck {
  if (gpu.available) {
    return check("nvml", "ok", `${gpu.facts.name}, driver ${gpu.facts.driverVersion}`);
  }
  const breaks = "No release can be confirmed by the driver: hand-offs say `unconfirmed`, and VRAM is unknown";
  return check("nvml", gpu.kind === "asleep" ? "not_applicable" : "broken", gpu.reason, breaks, gpu.remedy);
}

function checkAttribution(sample: Sample): HealthCheck {
  const { gpu } = sample;
  if (!gpu.available) return check("attribution", "not_applicable", "There is no card to attribute");
  const unknown = gpu.breakdown.processes.filter((process) => process.usedBytes === null);
  if (gpu.reading.processes === null || unknown.length > 0) {
    const who = unknown.map((process) => process.pid).join(", ");
    return check(
      "attribution",
      "degraded",
      unknown.length > 0 ? `The driver gives no bytes for pid ${who}` : "The driver gives no process list",
      "Yields of these processes can only be `unconfirmed`",
      "Run on the host instead of in a container or WSL, as root or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
    );
  }
  const { processes } = sample.sources;
  if (!processes.ok) {
    return check(
      "attribution",
      "degraded",
      processes.lastError ?? "The process table can't be read",
      "Every process counts as unmanaged",
      "Run with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
    );
  }
  return check("attribution", "ok", `${gpu.breakdown.processes.length} processes on the card, each with its bytes`);
}

function checkUpstream(name: "ollama" | "comfyui", link: UpstreamLink): HealthCheck {
  const title = name === "ollama" ? "Ollama" : "ComfyUI";
  if (!link.online) {
    const breaks = name === "ollama"
      ? "Nothing can be yielded or loaded"
      : "Its work is not seen, and it can't be purged";
    const remedy =
      `Start ${title}, or set ${name}.url to where it listens (now ${link.url}); HyperSwap notices by itself`;
    return check(name, "degraded", link.reason ?? `${title} doesn't answer`, breaks, remedy);
  }
  if (link.isRemote) {
    return check(
      name,
      "degraded",
      `${title} at ${link.url} runs on another host`,
      "Unloading there frees nothing here",
      `Point ${name}.url at the server of this box`,
    );
  }
  if (link.server === null) {
    return check(
      name,
      "degraded",
      `The process behind ${link.url} can't be identified`,
      "Its memory can't be told from others'",
      "Run HyperSwap as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH; for a container, share the host's pid namespace",
    );
  }
  return check(name, "ok", `${title} ${link.version ?? "(version unknown)"} at ${link.url}, pid ${link.server.pid}`);
}

function checkComfySocket(comfy: ComfyState): HealthCheck {
  if (!comfy.online) return check("comfyui_socket", "not_applicable", "ComfyUI is not running");
  if (comfy.socket === "open") return check("comfyui_socket", "ok", "The status broadcast is heard");
  return check(
    "comfyui_socket",
    "degraded",
    `The WebSocket is ${comfy.socket}; /queue is polled instead`,
    "Work is noticed up to a second later, so a hand-off loses that second",
    "Usually it comes back by itself; else look for a proxy that blocks WebSockets",
  );
}

function checkMemory(sample: Sample): HealthCheck {
  const { meminfo } = sample.sources;
  if (sample.memory !== null && meminfo.ok) return check("host_memory", "ok", "/proc/meminfo is read");
  return check(
    "host_memory",
    "degraded",
    meminfo.lastError ?? "/proc/meminfo can't be read",
    "Host memory is unknown",
    "Check proc.root in the configuration",
  );
}

function checkStore(store: StoreStatus | null): HealthCheck {
  if (store === null) {
    return check("store", "degraded", "The store hasn't answered yet", "Nothing yet", "Ask again in a second");
  }
  if (store.error !== null) {
    return check(
      "store",
      "degraded",
      store.error,
      "History is kept in memory only and is lost at a restart",
      "Free the disk, or check state_dir and its permissions",
    );
  }
  return check("store", "ok", store.path === null ? "History is kept in memory" : `History is kept in ${store.path}`);
}

function checkHandOffs(arbitration: ArbitrationView): HealthCheck {
  const { handOffs, lateHandOffs } = arbitration;
  if (handOffs === 0) return check("hand_offs", "not_applicable", "No hand-off has been measured yet");
  if (lateHandOffs === 0) return check("hand_offs", "ok", `${handOffs} hand-offs, all in time`);
  return check(
    "hand_offs",
    "degraded",
    `${lateHandOffs} of ${handOffs} hand-offs were late; the last margin was ${round(arbitration.lastMarginMs)} ms`,
    "ComfyUI may load only part of a model, without an error, and then runs 2–3 times slower",
    "Purge ComfyUI and run such a prompt again; from the side nothing can hold a prompt back, the gate can: [gate] in the configuration",
  );
}
