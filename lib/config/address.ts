/**
 * Where the running service is, read without the schema: loading that costs more than asking the service does. Whatever
 * this can't be sure of is null, and the whole configuration is read instead.
 */
import { type Environment, surroundingsOf, usualFiles } from "./environment.ts";
import { FREE_SECTION, isWellFormed, KEY_KINDS } from "./key_kinds.ts";
import { placesOf } from "./places.ts";

export interface Address {
  /** Tried first, in this order. */
  readonly sockets: readonly string[];
  /** Tried next; null where only a socket was named. */
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  readonly token: string | null;
}

/** What the command line says of it. */
export interface AddressFlags {
  readonly host?: string;
  readonly port?: string;
  readonly socket?: string;
  readonly token?: string;
}

export interface AddressSources {
  readonly flags: AddressFlags;
  readonly env: Environment;
  /** Throws where there is no such file, as Deno's own does. */
  readonly readFile: (path: string) => string;
  readonly isRoot: boolean;
}

const KEYS = ["host", "port", "socket", "state_dir"] as const;
const DEFAULT_PORT = 9090;

type Server = Partial<Record<typeof KEYS[number], string>>;

/** Null: the whole configuration has to say. */
export async function addressOf(sources: AddressSources): Promise<Address | null> {
  const { flags, env, isRoot } = sources;
  const fromEnv = serverInEnv(env);
  const fromFile = fromEnv === null ? null : await serverInFile(sources);
  if (fromEnv === null || fromFile === null) return null;
  const { host = "127.0.0.1", port = String(DEFAULT_PORT), socket = "", state_dir = "" } = {
    ...fromFile,
    ...fromEnv,
    ...given(flags),
  };
  if (!/^\d{1,5}$/.test(port) || port === "0") return null;
  const surroundings = surroundingsOf(env);
  const { clientSockets } = placesOf({ config: { server: { socket, state_dir } }, surroundings }, isRoot);
  const isPortNamed = flags.host !== undefined || flags.port !== undefined;
  const isSocketNamed = flags.socket !== undefined;
  return {
    sockets: isPortNamed && !isSocketNamed ? [] : clientSockets,
    tcp: isSocketNamed && !isPortNamed
      ? null
      : { hostname: host === "0.0.0.0" ? "127.0.0.1" : host, port: Number(port) },
    token: flags.token ?? surroundings.token,
  };
}

function given({ host, port, socket }: AddressFlags): Server {
  return {
    ...(host === undefined ? {} : { host }),
    ...(port === undefined ? {} : { port }),
    ...(socket === undefined ? {} : { socket }),
  };
}

/** Null where a variable stands that may be wrong: the whole configuration says what is the matter with it. */
function serverInEnv(env: Environment): Server | null {
  const known = new Map(KEYS.map((key) => [`HYPERSWAP_SERVER_${key.toUpperCase()}`, key]));
  const server: Server = {};
  for (const [name, value] of Object.entries(env)) {
    const key = known.get(name);
    if (key !== undefined) server[key] = value;
    else if (name.startsWith("HYPERSWAP_") && name !== "HYPERSWAP_CONFIG" && name !== "HYPERSWAP_TOKEN") return null;
  }
  return server;
}

async function serverInFile({ env, readFile }: AddressSources): Promise<Server | null> {
  const named = env["HYPERSWAP_CONFIG"];
  for (const path of named === undefined ? usualFiles(env) : [named]) {
    const text = textOf(path, readFile);
    if (text !== null) return await serverIn(text);
  }
  return named === undefined ? {} : null;
}

/** Null where it isn't there or can't be read (it may hold tokens that are the service's alone). */
function textOf(path: string, readFile: (path: string) => string): string | null {
  try {
    return readFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied) return null;
    throw error;
  }
}

/** Null where anything in it is unknown or of another kind, whichever section: the schema says what. */
async function serverIn(text: string): Promise<Server | null> {
  // A file of comments and of sections that set nothing, as it is installed, needs no parser.
  if (!/^[^#\n]*=/m.test(text) && sectionsOf(text).every((name) => name === FREE_SECTION || name in KEY_KINDS)) {
    return {};
  }
  const { parse } = await import("smol-toml");
  try {
    const tree = parse(text);
    if (!isWellFormed(tree)) return null;
    // as: isWellFormed has seen that it is a table.
    const server = (tree["server"] ?? {}) as Readonly<Record<string, unknown>>;
    return Object.fromEntries(Object.entries(server).map(([key, value]) => [key, String(value)]));
  } catch {
    // Broken TOML: whoever reads the whole configuration says where and why.
    return null;
  }
}

/** The names between brackets, as far as that is all that the lines hold; another line counts as a name that nobody knows. */
function sectionsOf(text: string): string[] {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => /^\[(\w+)\]\s*(?:#.*)?$/.exec(line)?.[1] ?? "");
}
