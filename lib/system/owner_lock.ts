import { Failure, messageOf } from "../model/failure.ts";

/** What the lock needs of the C library: only libc locks a file for as long as the process lives. */
export interface LockCalls {
  /** `readWrite` makes the file when it is missing. */
  open(path: string, options: { readonly flags: readonly ("read" | "readWrite")[]; readonly mode?: number }): number;
  close(fd: number): void;
  tryLock(fd: number): boolean;
}

/** Who holds a lock, as it wrote into the file. */
export interface Owner {
  readonly pid: number;
  readonly url: string;
  readonly socket: string | null;
  readonly since: string;
}

export interface OwnerLock extends Disposable {
  readonly path: string;
  /** Writes down what has become known since: the port that was free, say. */
  tell(owner: Owner): void;
}

/**
 * Takes an exclusive lock, or throws Failure unavailable that names the holder. The kernel drops it with the process,
 * however that ends; the file stays, since a file that is removed could be locked twice.
 */
export function takeLock(path: string, calls: LockCalls, owner: Owner): OwnerLock {
  const fd = openLock(path, calls);
  if (!calls.tryLock(fd)) {
    calls.close(fd);
    throw refusal(path, readOwner(path));
  }
  const tell = (known: Owner) => writeOwner(path, known);
  try {
    tell(owner);
  } catch (error) {
    calls.close(fd);
    throw error;
  }
  return { path, tell, [Symbol.dispose]: () => calls.close(fd) };
}

function writeOwner(path: string, owner: Owner): void {
  try {
    Deno.writeTextFileSync(path, `${JSON.stringify(owner)}\n`);
  } catch (error) {
    // Another user left the file; the lock is ours all the same, only it can't say so.
    if (error instanceof Deno.errors.PermissionDenied) return;
    throw new Failure("unavailable", `Cannot write ${path}: ${messageOf(error)}`, { cause: error });
  }
}

/** Who wrote the file last; null when it can't be read. Says nothing about whether that one still lives. */
export function readOwner(path: string): Owner | null {
  try {
    const value: unknown = JSON.parse(Deno.readTextFileSync(path));
    return isOwner(value) ? value : null;
  } catch {
    // Another user's file, a half-written one, or none: the lock itself has already told that somebody is there.
    return null;
  }
}

/** Any descriptor can be locked, so a file that another user made is opened for reading. */
function openLock(path: string, calls: LockCalls): number {
  try {
    return calls.open(path, { flags: ["readWrite"], mode: 0o644 });
  } catch (cause) {
    try {
      return calls.open(path, { flags: ["read"] });
    } catch {
      // The first failure is the telling one: the second only says that there is nothing to read either.
      throw new Failure("unavailable", `Cannot open the lock ${path}: ${messageOf(cause)}`, {
        hint: "Set --state-dir to a folder this user may write",
        cause,
      });
    }
  }
}

function refusal(path: string, owner: Owner | null): Failure {
  const who = owner === null ? "another process" : `pid ${owner.pid} at ${owner.url}, since ${owner.since}`;
  return new Failure("unavailable", `Another HyperSwap owns it already: ${who}`, {
    hint: "Use that one, stop it first, or give this one another --state-dir and card",
    details: { lock: path, owner },
  });
}

function isOwner(value: unknown): value is Owner {
  return typeof value === "object" && value !== null && "pid" in value && "url" in value && "since" in value;
}
