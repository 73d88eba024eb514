/** The Files port over this machine's file systems, through Deno's own calls: they run on its threads, not on ours. */
import type { FileFacts, Files, FolderName, Presence } from "../model/catalogue.ts";
import { messageOf } from "../model/failure.ts";

export interface FilesOptions {
  /** A folder that is shown as "/": the lab's whole machine is one. */
  readonly root?: string;
}

export function openFiles(options: FilesOptions = {}): Files {
  return new SystemFiles(options.root ?? "");
}

/** More than any caller takes from one answer to its next question. */
const TURNS_BETWEEN = 64;

class SystemFiles implements Files {
  readonly #root: string;
  #realRoot: Promise<string> | null = null;
  #busy = 0;

  constructor(root: string) {
    this.#root = root.replace(/\/+$/, "");
  }

  get busy(): number {
    return this.#busy;
  }

  list(path: string): Promise<readonly FolderName[] | null> {
    return this.#ask(async () => {
      const names: FolderName[] = [];
      for await (const entry of Deno.readDir(this.#root + path)) names.push({ name: entry.name, kind: kindOf(entry) });
      return names;
    });
  }

  stat(path: string): Promise<FileFacts | null> {
    return this.#ask(async () => factsOf(await Deno.stat(this.#root + path)));
  }

  async find(path: string): Promise<Presence> {
    this.#busy += 1;
    try {
      return { kind: "there", facts: factsOf(await Deno.stat(this.#root + path)) };
    } catch (error) {
      return isGone(error) ? { kind: "gone" } : { kind: "unknown", reason: messageOf(error) };
    } finally {
      void this.#letGo();
    }
  }

  realPath(path: string): Promise<string | null> {
    return this.#ask(async () => {
      if (this.#root === "") return await Deno.realPath(path);
      const root = await (this.#realRoot ??= Deno.realPath(this.#root));
      const real = await Deno.realPath(this.#root + path);
      return real === root || real.startsWith(`${root}/`) ? real.slice(root.length) || "/" : real;
    });
  }

  readText(path: string, maxBytes: number): Promise<string | null> {
    return this.#ask(async () => {
      // Opening a FIFO would wait for whoever writes to it.
      const { isFile, size } = await Deno.stat(this.#root + path);
      return isFile && size <= maxBytes ? await Deno.readTextFile(this.#root + path) : null;
    });
  }

  async #ask<T>(call: () => Promise<T>): Promise<T | null> {
    this.#busy += 1;
    try {
      return await call();
    } catch (error) {
      if (isOfPath(error)) return null;
      throw error;
    } finally {
      void this.#letGo();
    }
  }

  /** A chain of calls counts as busy in between, too: the caller takes some turns of the microtask queue to go on. */
  async #letGo(): Promise<void> {
    for (let turn = 0; turn < TURNS_BETWEEN; turn++) await null;
    this.#busy -= 1;
  }
}

function kindOf(entry: { readonly isFile: boolean; readonly isDirectory: boolean; readonly isSymlink: boolean }) {
  if (entry.isSymlink) return "link";
  return entry.isFile ? "file" : entry.isDirectory ? "folder" : "other";
}

function factsOf(info: Deno.FileInfo): FileFacts {
  return {
    kind: info.isFile ? "file" : info.isDirectory ? "folder" : "other",
    sizeBytes: info.size,
    modifiedAtMs: info.mtime?.getTime() ?? null,
    id: `${info.dev}:${info.ino ?? 0}`,
  };
}

/** No such name, or a file where a folder would have to be. */
function isGone(error: unknown): boolean {
  return error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ENOTDIR");
}

/** Of this process, or of the machine: nothing they say is true of the path. */
const OURS: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "ENOMEM"]);

/** Whether the kernel said something of a path (gone, not ours to see, a share that fails …): it costs that path alone. */
export function isOfPath(error: unknown): boolean {
  if (error instanceof Deno.errors.NotCapable) return true;
  if (!(error instanceof Error)) return false;
  if (!("code" in error) || typeof error.code !== "string") return /\(os error \d+\)/.test(error.message);
  return /^E[A-Z0-9]+$/.test(error.code) && !OURS.has(error.code);
}
