/** The configuration's keys by their dotted path, and which flag and environment variable set each. */
import * as z from "zod";
import { ConfigSchema } from "./schema.ts";

export interface ConfigKey {
  /** Such as `server.port`. */
  readonly path: string;
  /** Such as `HYPERSWAP_SERVER_PORT`. */
  readonly env: string;
  /** How text becomes its value: lists are separated by commas. */
  readonly kind: "text" | "number" | "boolean" | "list";
  readonly description: string;
  readonly fallback: unknown;
}

/** Flags of `serve`, `demo` and everything that looks for a service, and the key each one sets. */
export const FLAG_KEYS = {
  host: "server.host",
  port: "server.port",
  socket: "server.socket",
  "state-dir": "server.state_dir",
  "ollama-url": "ollama.url",
  "comfyui-url": "comfyui.url",
  nvml: "gpu.nvml",
  gpu: "gpu.uuid",
  mode: "arbitration.mode",
  "log-level": "log.level",
  "log-format": "log.format",
} as const satisfies Readonly<Record<string, string>>;

/** Names of other programs' habits that mean one of ours. */
export const ENV_ALIASES: Readonly<Record<string, string>> = { COMFY_IDLE_PURGE_S: "comfyui.idle_purge_s" };

/** Every key that text can set: all but tables and lists of tables. */
export function configKeys(): readonly ConfigKey[] {
  const keys: ConfigKey[] = [];
  for (const [section, schema] of Object.entries(ConfigSchema.shape)) {
    const inner = schema instanceof z.ZodPrefault ? schema.unwrap() : schema;
    if (!(inner instanceof z.ZodObject)) continue;
    for (const [name, field] of Object.entries(inner.shape)) {
      const kind = kindOf(field);
      if (kind === null || !(field instanceof z.ZodDefault)) continue;
      const path = `${section}.${name}`;
      const env = `HYPERSWAP_${path.toUpperCase().replaceAll(".", "_")}`;
      keys.push({ path, env, kind, description: field.description ?? "", fallback: field.def.defaultValue });
    }
  }
  return keys;
}

function kindOf(field: unknown): ConfigKey["kind"] | null {
  const inner = field instanceof z.ZodDefault ? field.unwrap() : field;
  if (inner instanceof z.ZodArray) return inner.element instanceof z.ZodObject ? null : "list";
  if (inner instanceof z.ZodNumber) return "number";
  if (inner instanceof z.ZodBoolean) return "boolean";
  return inner instanceof z.ZodType ? "text" : null;
}
