/**
 * Every key of the configuration: its unit, its default, what it does. The TOML file, the environment, the flags, the
 * published JSON Schema and the documentation all come from here.
 */
import * as z from "zod";

/** A name, an IPv4 or an IPv6 address without brackets. */
const HOST = /^([^\s\/:[\]]+|[\da-f.]*:[\da-f.:]*:[\da-f.:]*)$/i;

const server = z.strictObject({
  host: z.string().regex(HOST, "takes a name or an address alone: the port is server.port").default("127.0.0.1")
    .describe(
      "address the dashboard and API listen on; any but loopback needs access.tokens",
    ),
  port: z.int().min(0).max(65535).default(9090).describe("TCP port; 0 = whatever is free"),
  socket: z.string().default("").describe("unix socket (0660, group hyperswap); empty = the usual place for this user"),
  state_dir: z.string().default("").describe("where history is kept; empty = the usual place for this user"),
});

const ollama = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).default("http://127.0.0.1:11434").describe("where Ollama listens"),
  models: z.array(z.string().startsWith("/")).default([]).describe(
    "Ollama's model folders (OLLAMA_MODELS), beside those that its server and the usual places tell",
  ),
});

const comfyui = z.strictObject({
  url: z.url({ protocol: /^https?$/ }).default("http://127.0.0.1:8188").describe("where ComfyUI listens"),
  idle_purge_s: z.number().min(0).default(30).describe(
    "seconds of a truly empty queue before ComfyUI is purged; 0 = never by itself",
  ),
  folders: z.array(z.string().startsWith("/")).default([]).describe(
    "ComfyUI's own folders, whose models count while its server is away or doesn't tell",
  ),
  extra_model_paths: z.array(z.string().startsWith("/")).default([]).describe(
    "further extra_model_paths.yaml files, beside those that its server reads",
  ),
  heal_partial: z.boolean().default(false).describe(
    "whether a ComfyUI that seems to have loaded half a model is purged by itself at its next idle moment",
  ),
  purge_ceiling_ms: z.number().min(1000).default(10000).describe("ms that a purge may take to be confirmed"),
});

const gpu = z.strictObject({
  uuid: z.string().default("").describe("the arbitrated card, as nvidia-smi -L names it; empty = by index"),
  index: z.int().min(0).default(0).describe("the arbitrated card where no uuid is set; not stable over reboots"),
  nvml: z.string().default("").describe("path of libnvidia-ml.so.1; empty = the usual places"),
  release_idle_s: z.number().min(0).default(30).describe(
    "seconds without work after which a card that could sleep (a laptop's) is no longer held awake; 0 = never let go",
  ),
});

const arbitration = z.strictObject({
  mode: z.enum(["auto", "observe", "paused"]).default("auto").describe(
    "observe decides and records, and touches nothing",
  ),
  keep: z.array(z.string()).default([]).describe("models that an automatic yield or a switch never unloads"),
  headroom_mb: z.number().min(0).default(512).describe("MiB left free beside what a newcomer needs"),
  busy_after_ms: z.number().min(100).default(600).describe("ms before a held runner is looked at for being busy"),
  fault_after_ms: z.number().min(1000).default(6000).describe(
    "ms an idle runner may hold its memory before that is a fault",
  ),
  ceiling_ms: z.number().min(1000).default(10000).describe("ms a yield of one model may take"),
  ceiling_per_model_ms: z.number().min(0).default(5000).describe("ms that each further model adds"),
  proceed_unconfirmed: z.boolean().default(true).describe("whether hand-offs go on when the driver can't confirm them"),
  end_stuck_runners: z.boolean().default(false).describe(
    "whether a runner that was reported as stuck may be ended when an admin asks for it",
  ),
});

/** `host:port` on this machine, or nothing. The gate is as open as what stands behind it, so it never leaves the box. */
const loopback = z.string().regex(/^(?:(?:127(?:\.\d{1,3}){3}|localhost|\[::1\]):\d{1,5})?$/, {
  message: "takes an address of this machine with its port, such as 127.0.0.1:11435, or nothing",
});

const gate = z.strictObject({
  enabled: z.boolean().default(false).describe(
    "whether the two further ports below are opened, where requests are held until their memory is confirmed back",
  ),
  ollama: loopback.default("127.0.0.1:11435").describe("where Ollama's clients are to point; empty = not offered"),
  comfyui: loopback.default("127.0.0.1:8189").describe("where ComfyUI's clients are to point; empty = not offered"),
  ollama_socket: z.string().default("").describe("unix socket that does the same for Ollama; empty = none"),
  comfyui_socket: z.string().default("").describe("unix socket that does the same for ComfyUI; empty = none"),
  most_held: z.int().min(1).default(256).describe("requests held at a time; one more is told to come back (429)"),
  deadline_s: z.number().min(1).default(600).describe("seconds a request may be held before it is refused (503)"),
  age_s: z.number().min(0).default(60).describe("seconds after which a batch request counts as interactive"),
  drain_s: z.number().min(0).max(3_600).default(30).describe(
    "seconds that running answers get to end when the service stops; a second signal cuts them off",
  ),
  batch: z.array(z.string().min(1)).default([]).describe(
    'paths ("/api/embed") and models whose requests count as batch, unless X-HyperSwap-Priority says otherwise',
  ),
});

const load = z.strictObject({
  deadline_s: z.number().min(1).default(300).describe("seconds our own load may take; hanging up cancels it"),
  keep_alive: z.string().default("30m").describe("keep_alive of our own loads where the caller names none"),
});

const classify = z.strictObject({
  hit_gb_per_s: z.number().min(0).default(0).describe(
    "GB/s from which on a load counts as from RAM; 0 = by this box's own loads, else 2.0",
  ),
  partial_gb_per_s: z.number().min(0).default(0).describe(
    "GB/s from which on a load counts as partly from RAM; 0 = by this box's own loads, else 0.8",
  ),
}).refine(({ hit_gb_per_s: hit, partial_gb_per_s: partial }) => hit === 0 || partial <= hit, {
  message: "partial_gb_per_s lies above hit_gb_per_s",
});

/** The first MiB then takes 10 s; after 30 s without a byte a file system counts as dead. */
const LEAST_MBPS = 0.1;

const warm = z.strictObject({
  at_start: z.boolean().default(false).describe("read the models that are used most into memory once the service runs"),
  when_idle: z.boolean().default(false).describe("do so again whenever both tenants are idle; gives way to their work"),
  idle_s: z.number().min(5).default(60).describe("seconds without any work that count as idle"),
  budget_gb: z.number().min(0).default(0).describe(
    "GB of model files to have in memory; 0 = 80 % of what is free or page cache",
  ),
  throttle_mbps: z.number().min(0).refine(
    (mbps) => mbps === 0 || mbps >= LEAST_MBPS,
    `takes 0, or ${LEAST_MBPS} and more`,
  )
    .default(0).describe(
      "MB/s to read at, 0.1 or more; 0 = full speed while nobody else uses the disk, else 300",
    ),
  reserve_gb: z.number().min(0).default(2).describe("GB of memory that stay available to programs"),
  roots: z.array(z.string().startsWith("/")).default([]).describe(
    "further folders that links in model folders may lead to",
  ),
});

const pin = z.strictObject({
  budget_gb: z.number().min(0).default(0).describe(
    "GB of model files that may be locked in memory, out of reach for programs; 0 = none",
  ),
});

const access = z.strictObject({
  loopback: z.array(z.enum(["read", "operate", "tune", "admin"])).default(["read", "operate"])
    .describe("what a caller on this machine may do without credentials"),
  hosts: z.array(z.string()).default([]).describe("further names under which the service may be reached"),
  tokens: z.array(
    z.strictObject({
      name: z.string().min(1).describe("what the log calls its bearer"),
      secret: z.string().default("").describe("the token itself; better in secret_file"),
      secret_file: z.string().default("").describe("file whose first line is the token"),
      secret_env: z.string().default("").describe("environment variable that holds the token"),
      scopes: z.array(z.enum(["read", "operate", "tune", "admin"])).min(1).describe("what its bearer may do"),
    }).refine(
      ({ secret, secret_file: file, secret_env: env }) => [secret, file, env].filter((one) => one !== "").length === 1,
      { message: "takes either secret, secret_file or secret_env" },
    ),
  ).default([]).describe("bearer tokens; required for any bind but loopback"),
});

const history = z.strictObject({
  raw_days: z.number().min(0.01).default(14).describe("days that the 1 Hz telemetry is kept"),
  minute_days: z.number().min(0.01).default(180).describe("days that its minutes are kept: average, least and most"),
  hour_days: z.number().min(0.01).default(1825).describe("days that its hours are kept"),
  event_days: z.number().min(0.01).default(365).describe("days that events are kept"),
});

const log = z.strictObject({
  level: z.enum(["debug", "info", "warn", "error"]).default("info").describe("entries below it are dropped"),
  format: z.enum(["auto", "text", "json", "journal"]).default("auto").describe(
    "one line an entry, on stderr; auto = journal under systemd, else text",
  ),
});

const attribution = z.strictObject({
  desktop: z.array(z.string()).default([]).describe(
    "programs that count as desktop, beside the usual display servers and compositors",
  ),
});

const proc = z.strictObject({
  root: z.string().default("/proc").describe("where /proc is mounted"),
  sys_root: z.string().default("/sys").describe("where /sys is mounted"),
});

const profiles = z.strictObject({
  automatic: z.boolean().default(true).describe("whether the card's profile follows the workload"),
  dwell_s: z.number().min(0).default(5).describe("seconds the other workload must have been quiet before a switch"),
  idle_min: z.number().min(0).default(0).describe("minutes both are idle before balanced is applied; 0 = never"),
  reapply: z.boolean().default(false).describe("whether a lever that another tool changed is set again"),
  verify_s: z.number().min(1).default(5).describe("seconds between two looks at whether the card is still as set"),
});

const governor = z.strictObject({
  enabled: z.boolean().default(true).describe("whether the governor acts on heat"),
  hot_margin_c: z.number().min(0).default(8).describe("°C below the card's slowdown threshold from which it is hot"),
  hot_c: z.number().min(30).default(83).describe("°C from which a card is hot that names no threshold"),
  memory_hot_c: z.number().min(30).default(100).describe(
    "°C from which its memory is hot; the card's own limit where that is lower",
  ),
  recover_margin_c: z.number().min(0).default(5).describe("°C below hot from which a sample is good"),
  bad_samples: z.int().min(1).default(5).describe("bad samples in a row before the next rung"),
  good_samples: z.int().min(1).default(30).describe("good samples in a row before a rung is left"),
  cooldown_s: z.number().min(0).default(20).describe("least seconds between two changes"),
  blind_samples: z.int().min(1).default(3).describe("samples in a row without a temperature before stock is restored"),
  fan_pct: z.number().min(30).max(100).default(80).describe("% that the first rung gives the fans at least"),
  power_pct: z.number().min(10).max(100).default(85).describe("% of default power that the fourth rung leaves"),
});

/** The whole configuration. Unknown keys are refused. */
export const ConfigSchema = z.strictObject({
  server: server.prefault({}),
  ollama: ollama.prefault({}),
  comfyui: comfyui.prefault({}),
  gpu: gpu.prefault({}),
  arbitration: arbitration.prefault({}),
  gate: gate.prefault({}),
  load: load.prefault({}),
  classify: classify.prefault({}),
  needs: z.record(z.string(), z.number().positive()).default({})
    .describe('GiB of VRAM that a model needs, by its name ("comfyui" for ComfyUI)'),
  warm: warm.prefault({}),
  pin: pin.prefault({}),
  access: access.prefault({}),
  profiles: profiles.prefault({}),
  governor: governor.prefault({}),
  history: history.prefault({}),
  log: log.prefault({}),
  attribution: attribution.prefault({}),
  proc: proc.prefault({}),
});

type Settings = z.output<typeof ConfigSchema>;

/** A configuration with every default filled in, and `auto` decided. */
export type Config = Omit<Settings, "log"> & {
  readonly log: Omit<Settings["log"], "format"> & { readonly format: Exclude<Settings["log"]["format"], "auto"> };
};

/** The JSON Schema that editors can check a configuration file with. */
export function configJsonSchema(): Record<string, unknown> {
  return z.toJSONSchema(ConfigSchema, { io: "input", target: "draft-2020-12" });
}
