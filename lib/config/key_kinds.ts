/**
 * What the configuration may hold, without the schema, whose library costs more to load than a whole call of
 * `hyperswap --json` takes. A test holds this table to the schema. What it lets through may still be out of range: that
 * says nothing of where the service is, and the service, `config check` and every other command refuse it.
 */

type Kind = "string" | "number" | "boolean" | "list";

export const KEY_KINDS: Readonly<Record<string, Readonly<Record<string, Kind>>>> = {
  server: { host: "string", port: "number", socket: "string", state_dir: "string" },
  ollama: { url: "string", models: "list" },
  comfyui: {
    url: "string",
    idle_purge_s: "number",
    folders: "list",
    extra_model_paths: "list",
    heal_partial: "boolean",
    purge_ceiling_ms: "number",
  },
  gpu: { uuid: "string", index: "number", nvml: "string", release_idle_s: "number" },
  arbitration: {
    mode: "string",
    keep: "list",
    headroom_mb: "number",
    busy_after_ms: "number",
    fault_after_ms: "number",
    ceiling_ms: "number",
    ceiling_per_model_ms: "number",
    proceed_unconfirmed: "boolean",
    end_stuck_runners: "boolean",
  },
  gate: {
    enabled: "boolean",
    ollama: "string",
    comfyui: "string",
    ollama_socket: "string",
    comfyui_socket: "string",
    most_held: "number",
    deadline_s: "number",
    age_s: "number",
    drain_s: "number",
    batch: "list",
  },
  load: { deadline_s: "number", keep_alive: "string" },
  classify: { hit_gb_per_s: "number", partial_gb_per_s: "number" },
  warm: {
    at_start: "boolean",
    when_idle: "boolean",
    idle_s: "number",
    budget_gb: "number",
    throttle_mbps: "number",
    reserve_gb: "number",
    roots: "list",
  },
  pin: { budget_gb: "number" },
  access: { loopback: "list", hosts: "list", tokens: "list" },
  profiles: { automatic: "boolean", dwell_s: "number", idle_min: "number", reapply: "boolean", verify_s: "number" },
  governor: {
    enabled: "boolean",
    hot_margin_c: "number",
    hot_c: "number",
    memory_hot_c: "number",
    recover_margin_c: "number",
    bad_samples: "number",
    good_samples: "number",
    cooldown_s: "number",
    blind_samples: "number",
    fan_pct: "number",
    power_pct: "number",
  },
  history: { raw_days: "number", minute_days: "number", hour_days: "number", event_days: "number" },
  log: { level: "string", format: "string" },
  attribution: { desktop: "list" },
  proc: { root: "string", sys_root: "string" },
};

/** The section whose keys are anybody's. */
export const FREE_SECTION = "needs";

/** Whether every key of a parsed file is known and holds what it takes. */
export function isWellFormed(tree: Readonly<Record<string, unknown>>): boolean {
  return Object.entries(tree).every(([section, keys]) => {
    if (!isTable(keys)) return false;
    if (section === FREE_SECTION) return Object.values(keys).every((value) => typeof value === "number");
    const known = Object.hasOwn(KEY_KINDS, section) ? KEY_KINDS[section] : undefined;
    return known !== undefined &&
      Object.entries(keys).every(([name, value]) => Object.hasOwn(known, name) && known[name] === kindOf(value));
  });
}

function kindOf(value: unknown): string {
  return Array.isArray(value) ? "list" : typeof value;
}

function isTable(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
