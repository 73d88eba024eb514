/**
 * The process's environment: the one place that reads it, and what systemd and the desktop tell through it. Free of the
 * schema, so that a command that only looks for the service needn't load that.
 */

/** Places and sockets that the environment names. */
export interface Surroundings {
  readonly notifySocket: string | null;
  readonly watchdogUsec: number | null;
  readonly stateDirectory: string | null;
  readonly runtimeDirectory: string | null;
  readonly xdgStateHome: string | null;
  readonly xdgRuntimeDir: string | null;
  readonly home: string | null;
  /** `HYPERSWAP_TOKEN`: what the command line sends to a service that asks for one. */
  readonly token: string | null;
}

export type Environment = Readonly<Record<string, string>>;

/** This process's. */
export function readEnvironment(): Environment {
  return Deno.env.toObject();
}

export function surroundingsOf(env: Environment): Surroundings {
  const text = (name: string) => {
    const value = env[name];
    return value === undefined || value === "" ? null : value;
  };
  const usec = Number(text("WATCHDOG_USEC") ?? "");
  return {
    notifySocket: text("NOTIFY_SOCKET"),
    watchdogUsec: Number.isFinite(usec) && usec > 0 ? usec : null,
    stateDirectory: text("STATE_DIRECTORY")?.split(":")[0] ?? null,
    runtimeDirectory: text("RUNTIME_DIRECTORY")?.split(":")[0] ?? null,
    xdgStateHome: text("XDG_STATE_HOME"),
    xdgRuntimeDir: text("XDG_RUNTIME_DIR"),
    home: text("HOME"),
    token: text("HYPERSWAP_TOKEN"),
  };
}

/** Where a configuration lies when nobody names one: the user's, then the machine's. */
export function usualFiles(env: Environment): readonly string[] {
  const base = env["XDG_CONFIG_HOME"] || (env["HOME"] ? `${env["HOME"]}/.config` : null);
  return [...(base === null ? [] : [`${base}/hyperswap/hyperswap.toml`]), "/etc/hyperswap/hyperswap.toml"];
}

const PROXY_NAMES = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"];

const LOOPBACK = ["localhost", "127.0.0.0/8", "::1"];

/** What NO_PROXY must say so that loopback is reached directly; null where no proxy is set or it says so already. */
export function directHosts(env: Environment): string | null {
  const isProxied = PROXY_NAMES.some((name) => (env[name] || env[name.toLowerCase()] || "") !== "");
  if (!isProxied) return null;
  // The runtime reads the lower-case name only where the other isn't set.
  const said = (env["NO_PROXY"] || env["no_proxy"] || "").split(",").map((part) => part.trim());
  const hosts = said.filter((part) => part !== "");
  if (hosts.includes("*") || LOOPBACK.every((host) => hosts.includes(host))) return null;
  return [...new Set([...hosts, ...LOOPBACK])].join(",");
}

/**
 * Keeps calls to this machine off the proxy that the environment names: the runtime sends every fetch there otherwise,
 * also those to Ollama, to ComfyUI and to our own service. Takes hold of connections that are opened afterwards.
 */
export function keepLoopbackDirect(): void {
  const hosts = directHosts(readEnvironment());
  if (hosts === null) return;
  Deno.env.set("NO_PROXY", hosts);
  Deno.env.set("no_proxy", hosts);
}
