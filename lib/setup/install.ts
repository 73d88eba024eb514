/**
 * `hyperswap install` and `uninstall`: the files of a system service. It starts no program: what only systemd or the
 * kernel's own tools can do is told, for the owner to do.
 */
import { createHash } from "node:crypto";
import { Failure, messageOf } from "../model/failure.ts";
import type { Program } from "./program.ts";
import { replaceFile } from "./replace_file.ts";
import config from "../../systemd/hyperswap.toml" with { type: "text" };
import sysctl from "../../systemd/99-hyperswap.conf" with { type: "text" };
import sleepUnit from "../../systemd/hyperswap-sleep.service" with { type: "text" };
import unit from "../../systemd/hyperswap.service" with { type: "text" };

export interface InstallOptions {
  readonly program: Program;
  /** Taken for `/`, such as a package's folder; "" is the machine itself. */
  readonly root: string;
  readonly isDryRun: boolean;
}

export interface FileStep {
  readonly path: string;
  readonly action: "write" | "replace" | "same" | "keep" | "remove" | "absent";
  readonly why: string;
}

export interface InstallAnswer {
  readonly dry_run: boolean;
  readonly steps: readonly FileStep[];
  /** What is left for the owner to run, in this order. */
  readonly next: readonly string[];
  readonly warning: string;
}

/** What install has written, by path: how a file that was changed since is told. */
const RECORD = "/etc/hyperswap/installed.json";
/** There while systemd starts the service by itself. */
const ENABLED = "/etc/systemd/system/multi-user.target.wants/hyperswap.service";
const BINARY = "/usr/local/bin/hyperswap";

const RELOAD_WARNING =
  "systemctl daemon-reload can take the GPU away from containers that are running: do it while none use it";

interface Part {
  readonly path: string;
  readonly content: string | Uint8Array;
  readonly mode: number;
}

type Written = Readonly<Record<string, string>>;

/** Writes what is missing, renews what nobody has changed, and leaves the rest alone. */
export function install(options: InstallOptions): InstallAnswer {
  const written = readRecord(options.root);
  const parts = partsOf(options.program);
  const hashes: Record<string, string> = { ...written };
  const steps = parts.map((part): FileStep => {
    const step = planOf(part, { root: options.root, written });
    if (step.action === "write" || step.action === "replace" || step.action === "same") {
      hashes[part.path] = hashOf(part.content);
    }
    return step;
  });
  if (!options.isDryRun) {
    for (const [at, { action }] of steps.entries()) {
      const part = parts[at];
      if (part !== undefined && (action === "write" || action === "replace")) put(options.root, part);
    }
    put(options.root, { path: RECORD, content: `${JSON.stringify(hashes, null, 2)}\n`, mode: 0o644 });
  }
  return {
    dry_run: options.isDryRun,
    steps: options.program.isBinary ? steps : [...steps, fromSource()],
    next: [
      "groupadd --system hyperswap      # its members may use the socket; it may be there already",
      "sysctl --system                  # takes over 99-hyperswap.conf",
      "systemctl daemon-reload",
      "systemctl enable --now hyperswap",
      "systemctl enable hyperswap-sleep # where fans may be pinned: they go back before the machine sleeps",
    ],
    warning: RELOAD_WARNING,
  };
}

/** Takes away what install wrote and nobody has changed since. The history in /var/lib/hyperswap stays. */
export function uninstall(options: Omit<InstallOptions, "program">): InstallAnswer {
  const { root, isDryRun } = options;
  if (!isDryRun && isLink(root + ENABLED)) {
    throw new Failure("busy", "Cannot uninstall the service: it is still enabled", {
      hint: "First: systemctl disable --now hyperswap (as it stops, it puts the card back to stock)",
    });
  }
  const written = readRecord(root);
  const steps = Object.entries(written).map(([path, hash]): FileStep => {
    const there = readFile(root + path);
    if (there === null) return { path, action: "absent", why: "it is gone already" };
    if (hashOf(there) !== hash) return { path, action: "keep", why: "it was changed since it was installed" };
    return { path, action: "remove", why: "it is as it was installed" };
  });
  if (!isDryRun) {
    for (const { path, action } of steps) if (action === "remove") remove(root + path);
    if (Object.keys(written).length > 0) remove(root + RECORD);
  }
  return {
    dry_run: isDryRun,
    steps,
    next: [
      "systemctl daemon-reload",
      "rm -r /var/lib/hyperswap         # the history, if nobody wants it",
    ],
    warning: RELOAD_WARNING,
  };
}

function partsOf(program: Program): readonly Part[] {
  return [
    ...(program.isBinary ? [{ path: BINARY, content: readProgram(program.path), mode: 0o755 }] : []),
    { path: "/etc/systemd/system/hyperswap.service", content: unit, mode: 0o644 },
    { path: "/etc/systemd/system/hyperswap-sleep.service", content: sleepUnit, mode: 0o644 },
    { path: "/etc/sysctl.d/99-hyperswap.conf", content: sysctl, mode: 0o644 },
    // It may come to hold tokens.
    { path: "/etc/hyperswap/hyperswap.toml", content: config, mode: 0o640 },
  ];
}

function fromSource(): FileStep {
  return {
    path: BINARY,
    action: "absent",
    why: "this runs from source: make the binary with task compile, and install with that",
  };
}

function planOf(part: Part, at: { readonly root: string; readonly written: Written }): FileStep {
  const { path } = part;
  const there = readFile(at.root + path);
  if (there === null) return { path, action: "write", why: "it isn't there" };
  const hash = hashOf(there);
  if (hash === hashOf(part.content)) return { path, action: "same", why: "it is what this version brings" };
  if (hash === at.written[path]) {
    return { path, action: "replace", why: "nobody has changed it since it was installed" };
  }
  return { path, action: "keep", why: "somebody has changed it, or it isn't HyperSwap's" };
}

function put(root: string, part: Part): void {
  const path = root + part.path;
  try {
    Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
    replaceFile(path, part.content, { mode: part.mode });
  } catch (error) {
    throw refusal("write", path, error);
  }
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw refusal("remove", path, error);
  }
}

function refusal(verb: string, path: string, error: unknown): Failure {
  const isOurs = error instanceof Deno.errors.PermissionDenied;
  return new Failure(isOurs ? "forbidden" : "unavailable", `Cannot ${verb} ${path}: ${messageOf(error)}`, {
    ...(isOurs ? { hint: "Run it as root, or try it with --root <folder>" } : {}),
    cause: error,
  });
}

function isLink(path: string): boolean {
  try {
    return Deno.lstatSync(path).isSymlink;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw refusal("read", path, error);
  }
}

function readProgram(path: string): Uint8Array {
  try {
    return Deno.readFileSync(path);
  } catch (error) {
    throw refusal("read", path, error);
  }
}

function readFile(path: string): Uint8Array | null {
  try {
    return Deno.readFileSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw refusal("read", path, error);
  }
}

function readRecord(root: string): Written {
  const bytes = readFile(root + RECORD);
  if (bytes === null) return {};
  try {
    const value: unknown = JSON.parse(new TextDecoder().decode(bytes));
    return Object.fromEntries(
      Object.entries(value ?? {}).flatMap(([path, hash]) => typeof hash === "string" ? [[path, hash]] : []),
    );
  } catch (error) {
    // Without a record nothing counts as unchanged, so nothing is overwritten or removed.
    if (error instanceof SyntaxError) return {};
    throw error;
  }
}

function hashOf(content: string | Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
