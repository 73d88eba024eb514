/** `hyperswap config check|show|schema`: what the configuration is, where each value came from, and what is accepted. */
import { configKeys } from "../config/keys.ts";
import { loadConfig, type Loaded, type LoadOptions } from "../config/load.ts";
import { configJsonSchema } from "../config/schema.ts";
import { Failure, messageOf } from "../model/failure.ts";

const WORDS = ["check", "show", "schema"] as const;
const REDACTED = "[redacted]";

export interface ConfigAnswer {
  /** What goes to stdout with `--json`. */
  readonly value: Readonly<Record<string, unknown>>;
  /** What goes there without. */
  readonly text: string;
}

/** Throws Failure invalid_input for a configuration that can't be used, and for words it doesn't know. */
export function configCommand(args: readonly string[], options: Omit<LoadOptions, "flags"> = {}): ConfigAnswer {
  const [word = "show", ...rest] = args.filter((arg) => arg !== "--json");
  switch (WORDS.find((known) => known === word)) {
    case "schema": {
      const value = configJsonSchema();
      return { value, text: `${JSON.stringify(value, null, 2)}\n` };
    }
    case "check":
      return check(loadConfig({ ...options, flags: fileFlag(rest) }), options);
    case "show":
      return show(loadConfig({ ...options, flags: fileFlag(rest) }));
    case undefined:
      throw new Failure("invalid_input", `Unknown command "config ${word}"`, { hint: `It takes ${WORDS.join(", ")}` });
  }
}

function fileFlag(args: readonly string[]): Record<string, string | undefined> {
  const [first, second, third] = args;
  if (first === undefined) return {};
  if (first.startsWith("--config=") && second === undefined) return { config: first.slice("--config=".length) };
  if (first === "--config" && second !== undefined && third === undefined) return { config: second };
  const stranger = first.startsWith("--config") ? third ?? second ?? first : first;
  throw new Failure("invalid_input", `Unknown argument "${stranger}"`, { hint: "It takes --config <file>" });
}

/** Beyond the schema: what the service would refuse as it starts. */
function check(
  { config, file }: Loaded,
  { readFile = Deno.readTextFileSync }: Omit<LoadOptions, "flags">,
): ConfigAnswer {
  const { host } = config.server;
  if (!/^(localhost|127(\.\d+){3}|\[?::1\]?)$/i.test(host) && config.access.tokens.length === 0) {
    throw new Failure("invalid_input", `Cannot listen on ${host} without a token: anyone who reaches it could use it`, {
      hint: "Add a token to access.tokens, or set server.host to 127.0.0.1",
    });
  }
  for (const { name, secret_file: path } of config.access.tokens) {
    if (path === "") continue;
    try {
      readFile(path);
    } catch (error) {
      throw new Failure("invalid_input", `Cannot read the token "${name}" from ${path}: ${messageOf(error)}`, {
        hint: "Run the check as the user the service runs as",
        cause: error,
      });
    }
  }
  return { value: { ok: true, file }, text: `${file ?? "The defaults and the environment"}: fine\n` };
}

function show({ config, file, origins }: Loaded): ConfigAnswer {
  const tokens = config.access.tokens.map((token) => ({ ...token, secret: token.secret === "" ? "" : REDACTED }));
  const shown = { ...config, access: { ...config.access, tokens } };
  const lines = configKeys().map(({ path, env, description }) => {
    const [section = "", name = ""] = path.split(".");
    const from = origins[path] ?? "the default";
    return `${path} = ${JSON.stringify(valueAt(shown, section, name))}\n    ${description}\n    from ${from}; ${env}\n`;
  });
  const needs = Object.entries(config.needs).map(([model, gib]) => `needs.${JSON.stringify(model)} = ${gib}\n`);
  const named = tokens.map((token) => `access.tokens: ${JSON.stringify(token)}\n`);
  const head = `# ${file ?? "No file: the defaults and the environment"}\n`;
  return { value: { file, config: shown, origins }, text: [head, ...lines, ...needs, ...named].join("") };
}

function valueAt(config: object, section: string, name: string): unknown {
  const inner: unknown = Reflect.get(config, section);
  return typeof inner === "object" && inner !== null ? Reflect.get(inner, name) : undefined;
}
