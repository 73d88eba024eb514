/** Where Ollama's stores may be, and who says so (SPEC 3.1). */
import type { Files } from "../model/catalogue.ts";
import type { Proc } from "../model/ports.ts";
import type { ProcessId } from "../model/tenants.ts";
import { mapToOurs } from "./mounts.ts";
import { normalizePath } from "./paths.ts";
import { option } from "./runner_args.ts";
import { unlessGone } from "./vanishing.ts";

/** A folder that somebody named; whether anything is there is seen when it is read. */
export interface NamedPlace {
  readonly path: string;
  readonly origin: string;
}

export interface StoreHints {
  /** From the configuration. */
  readonly configured: readonly string[];
  /** From Ollama's unit file. */
  readonly unit: readonly string[];
  /** This user's home. */
  readonly home: string | null;
  /** Null when it is on another host, or not running. */
  readonly server: ProcessId | null;
  readonly runners: readonly ProcessId[];
}

const SYSTEM_STORE = "/usr/share/ollama/.ollama/models";
const UNIT_FOLDERS = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system"];
const UNIT_BYTES = 2 ** 20;

/** In the order in which a name counts: what the owner says, then what the running server says, then the usual places. */
export function findStores(hints: StoreHints, proc: Proc): readonly NamedPlace[] {
  const { server, home } = hints;
  const places: NamedPlace[] = hints.configured.map((path) => ({ path, origin: "configuration" }));
  const add = (path: string | null, origin: string) => {
    if (path !== null && path.startsWith("/")) places.push({ path: normalizePath(path), origin });
  };
  if (server !== null) {
    const env = readEnv(proc, server.pid);
    const own = env?.["OLLAMA_MODELS"] ?? (env?.["HOME"] === undefined ? null : `${env["HOME"]}/.ollama/models`);
    add(own && toOurs(proc, server.pid, own), "the running server's environment");
  }
  for (const { pid } of hints.runners) {
    const blob = option(proc.process(pid)?.args ?? [], "--model");
    const store = /^(.*)\/blobs\/sha256-[0-9a-f]{64}$/.exec(blob ?? "")?.[1] ?? null;
    add(store && toOurs(proc, pid, store), "a runner's command line");
  }
  for (const path of hints.unit) add(path, "the unit file");
  add(SYSTEM_STORE, "the usual place of a system service");
  if (home !== null) add(`${home}/.ollama/models`, "the usual place of this user");
  return places;
}

/** A process's environment; null where it isn't ours to read. */
export function readEnv(proc: Proc, pid: number): Readonly<Record<string, string>> | null {
  const text = unlessGone(() => proc.read(`${pid}/environ`));
  if (text === null) return null;
  return Object.fromEntries(
    text.split("\0").flatMap((entry) => {
      const at = entry.indexOf("=");
      // Ollama takes quotes around a value for a mistake, and drops them.
      return at <= 0 ? [] : [[entry.slice(0, at), entry.slice(at + 1).replace(/^(["'])(.*)\1$/, "$2")]];
    }),
  );
}

/** A path of another process as we reach it; where nothing tells, it is taken to see what we see. */
export function toOurs(proc: Proc, pid: number, path: string): string | null {
  const theirs = unlessGone(() => proc.read(`${pid}/mountinfo`));
  const ours = unlessGone(() => proc.read("self/mountinfo"));
  return theirs === null || ours === null ? path : mapToOurs(path, theirs, ours);
}

/** OLLAMA_MODELS of Ollama's systemd unit, its drop-ins included; at most one. */
export async function storesOfUnit(files: Files): Promise<readonly string[]> {
  const found: string[] = [];
  for (const folder of UNIT_FOLDERS) {
    const dropIns = (await files.list(`${folder}/ollama.service.d`) ?? []).map(({ name }) => name)
      .filter((name) => name.endsWith(".conf")).toSorted();
    const names = ["ollama.service", ...dropIns.map((name) => `ollama.service.d/${name}`)];
    for (const name of names) {
      const text = await files.readText(`${folder}/${name}`, UNIT_BYTES);
      if (text !== null) found.push(...parseUnitStores(text));
    }
  }
  // A drop-in overrides the unit.
  return found.slice(-1);
}

/** `Environment="OLLAMA_MODELS=/data/models" OTHER=1`, in every form systemd takes. */
export function parseUnitStores(text: string): readonly string[] {
  return [...text.matchAll(/^Environment=(.*)$/gm)].flatMap(([, list = ""]) =>
    [...list.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].flatMap(([, double, single, bare]) => {
      const value = /^OLLAMA_MODELS=(.*)$/.exec(double ?? single ?? bare ?? "")?.[1];
      return value === undefined || value === "" ? [] : [value.replace(/^(["'])(.*)\1$/, "$2")];
    })
  );
}
