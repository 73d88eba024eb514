/**
 * The write-ahead journal of the card: one JSON line per change, on disk before the change is made. Whoever finds it
 * after its writer was killed knows what to put back. It lies in the state directory.
 */
import { type JournalEntry, type Lever, LEVERS } from "../model/card.ts";

/** Its name in the state directory. */
export const JOURNAL_FILE = "card_journal.jsonl";

/** Larger than this it is written anew with what still counts, when nothing is changed. */
const LONGEST_BYTES = 256 * 1024;

type Change = Extract<JournalEntry, { kind: "change" }>;
type UncleanEnd = Extract<JournalEntry, { kind: "unclean_end" }>;

export interface CardJournal {
  /** Nothing is noted, for any card: there is nothing to put back or to tell. */
  isEmpty(): boolean;
  /** Levers changed and not put back, in the order they were last changed. */
  changed(gpu: string): readonly Lever[];
  /** The profile in force at the newest change that was not put back. */
  profile(gpu: string): string | null;
  uncleanEnd(gpu: string): UncleanEnd | null;
  /** Appends and syncs: when it returns, the entries are on disk. Throws when they are not. */
  note(entries: readonly JournalEntry[]): void;
  /** Forgets what is over. Does nothing while a lever of any card is still changed. */
  compact(options?: { readonly forgetUncleanEnd?: string }): void;
}

export function openCardJournal(stateDir: string): CardJournal {
  return new FileJournal(`${stateDir}/${JOURNAL_FILE}`, stateDir);
}

class FileJournal implements CardJournal {
  readonly #path: string;
  readonly #folder: string;

  constructor(path: string, folder: string) {
    this.#path = path;
    this.#folder = folder;
  }

  isEmpty(): boolean {
    return this.#read().length === 0;
  }

  changed(gpu: string): readonly Lever[] {
    return [...openChanges(this.#read(), gpu).keys()];
  }

  profile(gpu: string): string | null {
    return [...openChanges(this.#read(), gpu).values()].at(-1)?.reason.profile ?? null;
  }

  uncleanEnd(gpu: string): UncleanEnd | null {
    let newest: UncleanEnd | null = null;
    for (const entry of this.#read()) if (entry.kind === "unclean_end" && entry.gpu === gpu) newest = entry;
    return newest;
  }

  note(entries: readonly JournalEntry[]): void {
    if (entries.length === 0) return;
    const isNew = this.#size() === null;
    using file = Deno.openSync(this.#path, { append: true, create: true, read: true, mode: 0o600 });
    // A writer that was killed may have left half a line: it announced nothing, since it was never synced.
    const start = endsInLine(file) ? "" : "\n";
    const bytes = new TextEncoder().encode(start + entries.map((entry) => `${JSON.stringify(entry)}\n`).join(""));
    for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
    file.syncDataSync();
    if (isNew) syncFolder(this.#folder);
  }

  compact(options: { readonly forgetUncleanEnd?: string } = {}): void {
    const entries = this.#read();
    const isQuiet = [...new Set(entries.map(({ gpu }) => gpu))].every((gpu) => openChanges(entries, gpu).size === 0);
    const size = this.#size();
    if (size === null || !isQuiet) return;
    const kept = entries.filter((entry) => entry.kind === "unclean_end" && entry.gpu !== options.forgetUncleanEnd);
    const isWorthIt = kept.length === 0 || options.forgetUncleanEnd !== undefined || size > LONGEST_BYTES;
    if (!isWorthIt) return;
    const next = `${this.#path}.next`;
    {
      using file = Deno.openSync(next, { write: true, create: true, truncate: true, mode: 0o600 });
      file.writeSync(new TextEncoder().encode(kept.map((entry) => `${JSON.stringify(entry)}\n`).join("")));
      file.syncDataSync();
    }
    Deno.renameSync(next, this.#path);
    syncFolder(this.#folder);
  }

  #read(): readonly JournalEntry[] {
    try {
      return parseJournal(Deno.readTextFileSync(this.#path));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  #size(): number | null {
    try {
      return Deno.statSync(this.#path).size;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return null;
      throw error;
    }
  }
}

/** The newest change of each lever that was not put back. */
function openChanges(entries: readonly JournalEntry[], gpu: string): ReadonlyMap<Lever, Change> {
  const open = new Map<Lever, Change>();
  for (const entry of entries) {
    if (entry.gpu !== gpu || entry.kind === "unclean_end") continue;
    open.delete(entry.lever);
    if (entry.kind === "change") open.set(entry.lever, entry);
  }
  return open;
}

/** Entries of a journal's text. Torn lines are left out: a change is made only after its line was synced whole. */
export function parseJournal(text: string): readonly JournalEntry[] {
  return text.split("\n").flatMap((line) => {
    const entry = parseLine(line);
    return entry === null ? [] : [entry];
  });
}

function parseLine(line: string): JournalEntry | null {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    // Torn, or the empty end: see parseJournal.
    return null;
  }
  return isEntry(value) ? value : null;
}

function isEntry(value: unknown): value is JournalEntry {
  if (typeof value !== "object" || value === null) return false;
  // as: narrowed to an object; each field is looked at below.
  const { kind, gpu, lever, reason } = value as Record<string, unknown>;
  if (typeof gpu !== "string") return false;
  if (kind === "unclean_end") return true;
  const isLever = LEVERS.some((known) => known === lever);
  return isLever && (kind === "restored" || (kind === "change" && typeof reason === "object" && reason !== null));
}

function endsInLine(file: Deno.FsFile): boolean {
  const { size } = file.statSync();
  if (size === 0) return true;
  file.seekSync(size - 1, Deno.SeekMode.Start);
  const last = new Uint8Array(1);
  file.readSync(last);
  return last[0] === 10;
}

/** A new name is on disk only once its folder is. */
function syncFolder(path: string): void {
  using folder = Deno.openSync(path, { read: true });
  folder.syncSync();
}
