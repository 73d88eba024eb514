/** `hyperswap config check|show|schema`: what the configuration is, where each value came from, and what is accepted. */
import { configKeys } from "../config/keys.ts";
import { loadConfig } from "../config/load.ts";
import { configJsonSchema } from "../config/schema.ts";
import { Failure } from "../model/failure.ts";

const WORDS = ["check", "show", "schema"] as const;

export interface ConfigAnswer {
  /** What goes to stdout with `--json`. */
  readonly value: Readonly<Record<string, unknown>>;
  /** What goes there without. */
  readonly text: string;
}

/** Throws Failure invalid_input for a configuration that can't be used, and for words it doesn't know. */
export function configCommand(args: readonly string[]): ConfigAnswer {
  const [word = "show", ...rest] = args.filter((arg) => arg !== "--json");
  if (!WORDS.some((known) => known === word)) {
    throw new Failure("invalid_input", `Unknown command "config ${word}"`, { hint: `It takes ${WORDS.join(", ")}` });
  }
  if (word === "schema") {
    const value = configJsonSchema();
    return { value, text: `${JSON.stringify(value, null, 2)}\n` };
  }
  const loaded = loadConfig({ flags: fileFlag(rest) });
  if (word === "check") {
    const where = loaded.file ?? "the defaults and the environment";
    return { value: { ok: true, file: loaded.file }, text: `${where}: fine\n` };
  }
  return { value: { config: withoutSecrets(loaded.config), origins: loaded.origins }, text: describe(loaded) };
}

function fileFlag(args: readonly string[]): Record<string, string | undefined> {
  const [first, second] = args;
  if (first === undefined) return {};
  if (first.startsWith("--config=")) return { config: first.slice("--config=".length) };
  if (first === "--config" && second !== undefined) return { config: second };
  throw new Failure("invalid_input", `Unknown argument "${first}"`, { hint: "It takes --config <file>" });
}

function describe({ config, origins }: ReturnType<typeof loadConfig>): string {
  const lines = configKeys().map(({ path, env, description }) => {
    const [section = "", name = ""] = path.split(".");
    // Every section of the schema is an object, and the key was listed from it.
    const value = (config as unknown as Record<string, Record<string, unknown>>)[section]?.[name];
    return `${path} = ${JSON.stringify(value)}\n    ${description}\n    from ${
      origins[path] ?? "the default"
    }; ${env}\n`;
  });
  return lines.join("");
}

function withoutSecrets(config: ReturnType<typeof loadConfig>["config"]): Record<string, unknown> {
  const tokens = config.access.tokens.map((token) => ({ ...token, secret: token.secret === "" ? "" : "[redacted]" }));
  return { ...config, access: { ...config.access, tokens } };
}
