/**
 * `hyperswap doctor`: what a bug report needs, in one file that its owner can read before sending it. Secrets, and what
 * would tell who and where somebody is, are left out.
 */
import { Failure, messageOf } from "../model/failure.ts";
import { redact } from "../system/log.ts";
import { configCommand } from "./config_command.ts";
import { VERSION } from "./program.ts";

/** Asked of the service, or of this machine where none runs; each may fail alone. */
export const ASKED = [
  ["version", {}],
  ["health", {}],
  ["stats", {}],
  ["overclock", {}],
  ["governor", {}],
  ["arbitration", {}],
  ["why", { limit: 100 }],
  ["history", { limit: 200 }],
  ["runs", {}],
  ["db", {}],
  ["footprints", {}],
  ["cache-report", {}],
] as const satisfies readonly (readonly [string, Readonly<Record<string, unknown>>])[];

export interface DoctorParts {
  /** The answer of an operation; throws Failure. */
  readonly ask: (operation: string, input: Readonly<Record<string, unknown>>) => Promise<unknown>;
  /** Where the answers come from, in words. */
  readonly where: string;
  readonly home: string | null;
  readonly readFile?: (path: string) => string;
  /** ISO time of the bundle. */
  readonly at: string;
}

/** Of the machine, as far as it tells why something differs there. */
const FILES = ["/etc/os-release", "/proc/version", "/proc/meminfo", "/proc/driver/nvidia/version", "/proc/self/cgroup"];

/** The whole bundle; what couldn't be had says why in its place. */
export async function examine(parts: DoctorParts): Promise<Readonly<Record<string, unknown>>> {
  const { ask, where, at, readFile = Deno.readTextFileSync } = parts;
  const answers: [string, unknown][] = [];
  for (const [operation, input] of ASKED) {
    answers.push([operation, await attempt(() => ask(operation, input))]);
  }
  const files = FILES.map((path): [string, unknown] => [path, textOr(() => readFile(path))]);
  const { deno, v8 } = Deno.version;
  const bundle = {
    bundle: "HyperSwap doctor 1",
    at,
    program: {
      version: VERSION,
      deno,
      v8,
      os: Deno.osRelease(),
      arch: Deno.build.arch,
      is_binary: Deno.build.standalone,
    },
    answered_by: where,
    configuration: await attempt(() => configCommand(["show"]).value),
    answers: Object.fromEntries(answers),
    files: Object.fromEntries(files),
  };
  return hide(bundle, parts.home);
}

async function attempt(run: () => unknown): Promise<unknown> {
  try {
    return await run();
  } catch (error) {
    // A section that fails may be what the report is about: it says why, and the rest stands.
    return { error: error instanceof Failure ? error.code : "internal", message: messageOf(error) };
  }
}

function textOr(read: () => string): unknown {
  try {
    return read().trimEnd();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    return { error: "unavailable", message: messageOf(error) };
  }
}

const SECRET_KEY = /token|secret|passw|authorization|cookie|api[-_]?key|credential/i;
/** Keys that only sound like it. */
const PLAIN_KEY = /^tokens_per_sec$|tokens?_(?:left|s)$|_tokens$/;

/** No secret, no user's name in a path, no host but this one. */
function hide(bundle: object, home: string | null): Readonly<Record<string, unknown>> {
  const text = (value: string) => {
    const homeless = home === null || home === "/" ? value : value.replaceAll(home, "~");
    return redact(homeless)
      .replaceAll(/\/(?:home|Users)\/[^/\s":]+/g, "/home/[user]")
      .replaceAll(/(https?:\/\/)(?!localhost|127\.|\[::1\])[^/\s":]+/g, "$1[host]");
  };
  const walk = (value: unknown, key: string): unknown => {
    if (typeof value === "string") return isSecret(key) && value !== "" ? "[redacted]" : text(value);
    if (Array.isArray(value)) return value.map((item) => walk(item, ""));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [text(name), walk(inner, name)]));
  };
  // An object walks to an object.
  return walk(bundle, "") as Readonly<Record<string, unknown>>;
}

function isSecret(key: string): boolean {
  return SECRET_KEY.test(key) && !PLAIN_KEY.test(key) && !key.endsWith("_file");
}

/** Writes it where nothing stands yet, for its owner's eyes alone. */
export function writeBundle(path: string, bundle: object): void {
  try {
    Deno.writeTextFileSync(path, `${JSON.stringify(bundle, null, 2)}\n`, { createNew: true, mode: 0o600 });
  } catch (error) {
    const isThere = error instanceof Deno.errors.AlreadyExists;
    throw new Failure(isThere ? "busy" : "unavailable", `Cannot write ${path}: ${messageOf(error)}`, {
      hint: isThere ? "Name another file with --output, or remove that one" : "Name another place with --output",
      cause: error,
    });
  }
}
