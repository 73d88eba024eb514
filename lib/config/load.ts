/** The configuration, from flags over environment over file over defaults. */
import { parse as parseToml, TomlError } from "smol-toml";
import { didYouMean } from "../model/did_you_mean.ts";
import { Failure, messageOf } from "../model/failure.ts";
import { readEnvironment, type Surroundings, surroundingsOf, usualFiles } from "./environment.ts";
import { configKeys, ENV_ALIASES, FLAG_KEYS } from "./keys.ts";
import { refuseConfig } from "./problems.ts";
import { type Config, ConfigSchema } from "./schema.ts";

export interface LoadOptions {
  /**
   * By flag name without dashes; undefined = not given. `config` names the file, which must then be there. Else
   * HYPERSWAP_CONFIG does, else the user's or the machine's own file is taken if there is one.
   */
  readonly flags: Readonly<Record<string, string | undefined>>;
  /** Default: this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly readFile?: (path: string) => string;
  /** Whether a person reads stderr. Default: asks. */
  readonly isTerminal?: boolean;
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

type Tree = Record<string, unknown>;

/** Reads everything; throws Failure invalid_input that names key, value, source and what is accepted. */
export function loadConfig(options: LoadOptions): Loaded {
  const env = options.env ?? readEnvironment();
  const { file, text } = findFile(options, env);
  const origins: Record<string, string> = {};
  const tree = file === null ? {} : parseTree(file, text);
  if (file !== null) { for (const path of leaves(tree)) origins[path] = file; }
  applyEnv(tree, { env, origins });
  applyFlags(tree, { flags: options.flags, origins });
  const parsed = ConfigSchema.safeParse(tree);
  if (!parsed.success) throw refuseConfig(parsed.error, { tree, origins });
  const { log } = parsed.data;
  // JOURNAL_STREAM alone doesn't tell: desktops leak it into the terminals they start.
  const isJournal = (env["JOURNAL_STREAM"] ?? "") !== "" && !(options.isTerminal ?? Deno.stderr.isTerminal());
  const format = log.format === "auto" ? isJournal ? "journal" : "text" : log.format;
  const access = { ...parsed.data.access, tokens: parsed.data.access.tokens.map((token) => withSecret(token, env)) };
  const config = { ...parsed.data, access, log: { ...log, format } };
  return { config, file, origins, surroundings: surroundingsOf(env) };
}

/** A token whose secret a variable holds has it from there; without the variable it stays empty, which only serving needs. */
function withSecret<T extends { readonly secret_env: string; readonly secret: string }>(
  token: T,
  env: Readonly<Record<string, string>>,
): T {
  return token.secret_env === "" ? token : { ...token, secret: env[token.secret_env] ?? "" };
}

/** The file that counts and its text; null where none is named and none lies in the usual places. */
function findFile(
  { flags, readFile = Deno.readTextFileSync }: LoadOptions,
  env: Readonly<Record<string, string>>,
): { readonly file: string | null; readonly text: string } {
  const named = flags["config"] ?? env["HYPERSWAP_CONFIG"] ?? null;
  if (named !== null) {
    try {
      return { file: named, text: readFile(named) };
    } catch (error) {
      throw new Failure("invalid_input", `Cannot read the configuration ${named}: ${messageOf(error)}`, {
        hint: "Name another file with --config, or leave it out to use the defaults",
        cause: error,
      });
    }
  }
  for (const file of usualFiles(env)) {
    try {
      return { file, text: readFile(file) };
    } catch (error) {
      // Not there, or the service's own (it may hold tokens): the command line does without.
      if (!(error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied)) throw error;
    }
  }
  return { file: null, text: "" };
}

function parseTree(file: string, text: string): Tree {
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
    throw new Failure("invalid_input", `Cannot use the configuration: unknown environment variable ${name}`, {
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
    put(tree, path, readText(path, text, `flag --${flag}`));
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
      throw wrongText(path, { text, source, takes: "true or false" });
    case "number": {
      const value = Number(text);
      if (text.trim() !== "" && Number.isFinite(value)) return value;
      throw wrongText(path, { text, source, takes: "a number" });
    }
  }
}

function wrongText(
  path: string,
  given: { readonly text: string; readonly source: string; readonly takes: string },
): Failure {
  const problem = `${path} = ${JSON.stringify(given.text)} (from ${given.source}): takes ${given.takes}`;
  return new Failure("invalid_input", `Cannot use the configuration: ${problem}`, { details: { problems: [problem] } });
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
