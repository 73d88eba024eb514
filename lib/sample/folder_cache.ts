/** What is known of folders and files, so that looking again costs one `stat` a folder and nothing a file. */
import type { FileFacts, Files, FolderName } from "../model/catalogue.ts";
import type { Clock } from "../model/ports.ts";
import type { MonotonicMs } from "../model/units.ts";

/**
 * A change within this time of a look may carry the time the look has seen already: clocks of file systems tick in
 * milliseconds, those of old or remote ones in seconds.
 */
const SETTLED_MS = 3_000;
/** A file that was written to this lately may still be growing, which its folder's time doesn't show. */
const GROWING_MS = 120_000;
/** All else about a file (a link's far end, a file overwritten in place) is looked at again this often. */
const FILE_MS = 60_000;

interface KnownFolder {
  readonly facts: FileFacts;
  readonly names: readonly FolderName[];
  /** Listed long enough after its last change for that to be the last. */
  readonly isSettled: boolean;
}

interface KnownFile {
  readonly facts: FileFacts | null;
  readonly realPath: string | null;
  readonly atMs: MonotonicMs;
}

export class FolderCache {
  readonly #files: Files;
  readonly #clock: Clock;
  #folders = new Map<string, KnownFolder>();
  #known = new Map<string, KnownFile>();
  #foldersSeen = new Map<string, KnownFolder>();
  #filesSeen = new Map<string, KnownFile>();
  /** Folders that were listed anew, by this round. */
  #changed = new Set<string>();

  constructor(files: Files, clock: Clock) {
    this.#files = files;
    this.#clock = clock;
  }

  /** Starts a round: what it doesn't ask for is forgotten with the next. */
  begin(): void {
    this.#folders = this.#foldersSeen;
    this.#known = this.#filesSeen;
    this.#foldersSeen = new Map();
    this.#filesSeen = new Map();
    this.#changed = new Set();
  }

  /** Its names; listed again only when its time says that one came or went. Null when there is no such folder. */
  async names(path: string): Promise<readonly FolderName[] | null> {
    const facts = await this.#files.stat(path);
    if (facts === null || facts.kind !== "folder") return null;
    const known = this.#folders.get(path);
    if (known !== undefined && known.isSettled && isSame(known.facts, facts)) {
      this.#foldersSeen.set(path, known);
      return known.names;
    }
    const wallMs = this.#clock.wallMs();
    const names = await this.#files.list(path);
    if (names === null) return null;
    const isSettled = facts.modifiedAtMs !== null && facts.modifiedAtMs < wallMs - SETTLED_MS;
    const sorted = names.toSorted(byName);
    this.#foldersSeen.set(path, { facts, names: sorted, isSettled });
    this.#changed.add(path);
    return sorted;
  }

  /**
   * A file's facts and real path, as of the last look that was due. `folder`: where it lies, as it was asked for by
   * `names`. `isFresh`: for files that are overwritten in place.
   */
  async file(
    folder: string,
    name: string,
    { isFresh = false }: { readonly isFresh?: boolean } = {},
  ): Promise<Omit<KnownFile, "atMs">> {
    const path = `${folder}/${name}`;
    const seen = this.#filesSeen.get(path);
    if (seen !== undefined && !isFresh) return seen;
    const known = this.#known.get(path);
    const nowMs = this.#clock.monotonicMs();
    if (known !== undefined && !isFresh && !this.#changed.has(folder) && !this.#isDue(known, nowMs)) {
      this.#filesSeen.set(path, known);
      return known;
    }
    const facts = await this.#files.stat(path);
    const realPath = facts === null ? null : await this.#files.realPath(path);
    const found = { facts, realPath, atMs: nowMs };
    this.#filesSeen.set(path, found);
    return found;
  }

  #isDue({ facts, atMs }: KnownFile, nowMs: MonotonicMs): boolean {
    const modifiedAtMs = facts?.modifiedAtMs ?? null;
    const isGrowing = modifiedAtMs !== null && modifiedAtMs > this.#clock.wallMs() - GROWING_MS;
    return isGrowing || nowMs - atMs >= FILE_MS;
  }
}

function isSame(a: FileFacts, b: FileFacts): boolean {
  return a.id === b.id && a.modifiedAtMs === b.modifiedAtMs;
}

/** By code unit: the order doesn't depend on anybody's language. */
function byName({ name: a }: FolderName, { name: b }: FolderName): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
