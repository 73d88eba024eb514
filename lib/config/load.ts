/**
 * The configuration, from flags over environment over file over defaults. The only reader of the environment and of the
 * configuration file.
 */
import { parse as parseToml, TomlError } from "smol-toml";
import type * as z from "zod";
import { didYouMean } from "../model/did_you_mean.ts";
import { Failure, messageOf } from "../model/failure.ts";
import { configKeys, ENV_ALIASES, FLAG_KEYS } from "./keys.ts";
import { type Config, ConfigSchema } from "./schema.ts";

export interface LoadOptions {
  /** By flag name without dashes; undefined = not given. `config` names the file. */
  readonly flags: Readonly<Record<string, string | undefined>>;
  /** Default: this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly readFile?: (path: string) => string;
}

export interface Loaded {
  readonly config: Config;
  /** The file it was read from, or null. */
  readonly file: string | null;
  /** Dotted path → where its value came from ("flag --port", "HYPERSWAP_SERVER_PORT", a file's path). */
  readonly origins: Readonly<Record<string, string>>;
  /** What systemd and the desktop tell about places. */
  readonly surroundings: Surroundings;
}

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

type Tree = Record<string, unknown>;

/** Reads everything; throws Failure invalid_input that names key, value, source and what is accepted. */
export function loadConfig(options: LoadOptions): Loaded {
  const env = options.env ?? Deno.env.toObject();
  const file = options.flags["config"] ?? env["HYPERSWAP_CONFIG"] ?? null;
  const origins: Record<string, string> = {};
  const tree = file === null ? {} : readTree(file, options.readFile ?? Deno.readTextFileSync);
  if (file !== null) { for (const path of leaves(tree)) origins[path] = file; }
  applyEnv(tree, { env, origins });
  applyFlags(tree, { flags: options.flags, origins });
  const parsed = ConfigSchema.safeParse(tree);
  if (!parsed.success) throw refuse(parsed.error, { origins, file });
  return { config: parsed.data, file, origins, surroundings: surroundingsOf(env) };
}

function readTree(file: string, readFile: (path: string) => string): Tree {
  let text: string;
  try {
    text = readFile(file);
  } catch (error) {
    throw new Failure("invalid_input", `Cannot read the configuration ${file}: ${messageOf(error)}`, {
      hint: "Name another file with --config, or leave it out to use the defaults",
      cause: error,
    });
  }
  try {
    return parseToml(text);
  } catch (error) {
    const where = error instanceof TomlError ? ` (line ${error.line}, column ${error.column})` : "";
    const what = messageOf(error).split("\n")[0] ?? "";
    throw new Failure("invalid_input", `Cannot read ${file} as TOML${where}: ${what}`, {
      hint: "systemd/hyperswap.toml is an example with every key",
      cause: error,
    });
  }
}

function applyEnv(
  tree: Tree,
  { env, origins }: { readonly env: Readonly<Record<string, string>>; readonly origins: Record<string, string> },
): void {
  const byEnv = new Map(configKeys().map((key) => [key.env, key.path]));
  for (const [name, path] of Object.entries(ENV_ALIASES)) byEnv.set(name, path);
  for (const [name, path] of byEnv) {
    const text = env[name];
    if (text === undefined) continue;
    put(tree, path, readText(path, text, name));
    origins[path] = name;
  }
  const known = new Set([...byEnv.keys(), "HYPERSWAP_CONFIG", "HYPERSWAP_TOKEN"]);
  for (const name of Object.keys(env)) {
    if (!name.startsWith("HYPERSWAP_") || known.has(name) || name.startsWith("HYPERSWAP_TEST_")) continue;
    const meant = didYouMean(name, [...known]);
    throw new Failure("invalid_input", `Unknown environment variable ${name}`, {
      hint: meant === null ? "`hyperswap config show` lists every one" : `Did you mean ${meant}?`,
    });
  }
}

function applyFlags(
  tree: Tree,
  { flags, origins }: {
    readonly flags: LoadOptions["flags"];
    readonly origins: Record<string, string>;
  },
): void {
  for (const [flag, path] of Object.entries(FLAG_KEYS)) {
    const text = flags[flag];
    if (text === undefined) continue;
    put(tree, path, readText(path, text, `--${flag}`));
    origins[path] = `flag --${flag}`;
  }
}

/** A key's value from text; a number that isn't one is refused by name rather than passed on as NaN. */
function readText(path: string, text: string, source: string): unknown {
  const kind = configKeys().find((key) => key.path === path)?.kind ?? "text";
  switch (kind) {
    case "text":
      return text;
    case "list":
      return text.split(",").map((part) => part.trim()).filter((part) => part !== "");
    case "boolean":
      if (["true", "1", "yes", "on"].includes(text.toLowerCase())) return true;
      if (["false", "0", "no", "off"].includes(text.toLowerCase())) return false;
      throw new Failure("invalid_input", `${source} is ${JSON.stringify(text)}: ${path} takes true or false`);
    case "number": {
      const value = Number(text);
      if (text.trim() !== "" && Number.isFinite(value)) return value;
      throw new Failure("invalid_input", `${source} is ${JSON.stringify(text)}: ${path} takes a number`);
    }
  }
}

function put(tree: Tree, path: string, value: unknown): void {
  const [section = "", name = ""] = path.split(".");
  const inner = tree[section];
  tree[section] = { ...(isTree(inner) ? inner : {}), [name]: value };
}

function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function leaves(tree: Tree, prefix = ""): string[] {
  return Object.entries(tree).flatMap(([key, value]) =>
    isTree(value) ? leaves(value, `${prefix}${key}.`) : [`${prefix}${key}`]
  );
}

function refuse(
  error: z.ZodError,
  { origins, file }: { readonly origins: Readonly<Record<string, string>>; readonly file: string | null },
): Failure {
  const problems = error.issues.map((issue) => describeIssue(issue, origins));
  const where = file === null ? "" : ` (file ${file})`;
  return new Failure(
    "invalid_input",
    `Cannot use the configuration${where}: ${problems.map((entry) => entry.text).join("; ")}`,
    {
      hint: problems.find((entry) => entry.hint !== null)?.hint ?? "`hyperswap config schema` prints what is accepted",
      details: { problems: problems.map((entry) => entry.text) },
    },
  );
}

function describeIssue(
  issue: z.core.$ZodIssue,
  origins: Readonly<Record<string, string>>,
): { readonly text: string; readonly hint: string | null } {
  const path = issue.path.map(String).join(".");
  if (issue.code === "unrecognized_keys") {
    const name = issue.keys[0] ?? "";
    const full = path === "" ? name : `${path}.${name}`;
    const meant = didYouMean(name, knownKeys(path));
    return {
      text: `unknown key ${full}`,
      hint: meant === null ? null : `Did you mean ${path === "" ? "" : `${path}.`}${meant}?`,
    };
  }
  const origin = origins[path];
  return { text: `${path}${origin === undefined ? "" : ` (from ${origin})`}: ${issue.message}`, hint: null };
}

function knownKeys(section: string): readonly string[] {
  if (section === "") return Object.keys(ConfigSchema.shape);
  return configKeys().filter((key) => key.path.startsWith(`${section}.`)).map((key) =>
    key.path.slice(section.length + 1)
  );
}

function surroundingsOf(env: Readonly<Record<string, string>>): Surroundings {
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
