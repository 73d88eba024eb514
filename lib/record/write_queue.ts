import type { HistoryItem } from "../model/history.ts";
import { parseFields } from "./fields_text.ts";
import type { EventText, EventWrite } from "./store_link.ts";

/** Writes that go to the file together. */
const BATCH = 100;
/** Writes that wait while the file can't be written; beyond it the oldest are lost, and counted. */
const MAX_WAITING = 1_000;

interface AppendEntry {
  readonly kind: "append";
  readonly event: EventText;
  /** It was sent before, and whether it was written is unknown. */
  isRepeat: boolean;
  temporaryId: number | null;
  readonly kept: Promise<HistoryItem>;
  readonly settle: (item: HistoryItem) => void;
}

interface AmendEntry {
  readonly kind: "amend";
  /** As the caller named it: a temporary id is looked up when the write is sent. */
  readonly target: number;
  readonly fields: string;
  readonly kept: Promise<HistoryItem | null>;
  readonly settle: (item: HistoryItem | null) => void;
}

type Entry = AppendEntry | AmendEntry;

export interface Batch {
  readonly entries: readonly Entry[];
  readonly writes: readonly EventWrite[];
}

/** Event writes on their way to the file, in order, and the temporary ids of those that can't be written yet. */
export class WriteQueue {
  #entries: Entry[] = [];
  #taken: readonly Entry[] = [];
  readonly #idByTemporary = new Map<number, number>();
  #temporaryIds = 0;
  #lost = 0;

  /** Writes not known to be on the disk. */
  get length(): number {
    return this.#taken.length + this.#entries.length;
  }

  get lost(): number {
    return this.#lost;
  }

  append(event: EventText): AppendEntry {
    const { promise: kept, resolve: settle } = Promise.withResolvers<HistoryItem>();
    const entry: AppendEntry = { kind: "append", event, isRepeat: false, temporaryId: null, kept, settle };
    this.#add(entry);
    return entry;
  }

  /** Resolves when it is written; null when the event it names will never be in the file. */
  amend(id: number, fields: string): Promise<HistoryItem | null> | null {
    if (this.idOf(id) < 0 && !this.#isWaiting(id)) return null;
    const { promise: kept, resolve: settle } = Promise.withResolvers<HistoryItem | null>();
    this.#add({ kind: "amend", target: id, fields, kept, settle });
    return kept;
  }

  /** The lasting id of a temporary one, once its event is written; any other id as it is. */
  idOf(id: number): number {
    return this.#idByTemporary.get(id) ?? id;
  }

  /** Answers the caller of a write that can't be on the disk soon; the write itself goes on waiting. */
  giveTemporaryId(entry: AppendEntry): HistoryItem {
    const id = entry.temporaryId ??= -(++this.#temporaryIds);
    const item = { id, atMs: entry.event.atMs, kind: entry.event.kind, fields: parseFields(entry.event.fields) };
    entry.settle(item);
    return item;
  }

  /** Gives up on answering with what the disk says: events without an id yet, which are to get a temporary one. */
  releaseCallers(): readonly AppendEntry[] {
    const all = [...this.#taken, ...this.#entries];
    for (const entry of all) if (entry.kind === "amend") entry.settle(null);
    return all.filter((entry) => entry.kind === "append").filter(({ temporaryId }) => temporaryId === null);
  }

  /** Takes the next writes out; `written` or `putBack` must follow. One batch at a time. */
  take(): Batch {
    const entries: Entry[] = [];
    const writes: EventWrite[] = [];
    const unwritten = new Set<number>();
    while (entries.length < BATCH && this.#entries[0] !== undefined) {
      const entry = this.#entries[0];
      // Its event gets a lasting id only when this batch is written.
      if (entry.kind === "amend" && unwritten.has(entry.target)) break;
      this.#entries.shift();
      const write = this.#toWrite(entry);
      if (write === null) continue;
      entries.push(entry);
      writes.push(write);
      if (entry.kind === "append" && entry.temporaryId !== null) unwritten.add(entry.temporaryId);
    }
    this.#taken = entries;
    return { entries, writes };
  }

  /** The batch is on the disk: answers its callers, and says which events these are now. */
  written(
    batch: Batch,
    results: readonly (HistoryItem | null)[],
  ): readonly { readonly temporaryId: number | null; readonly item: HistoryItem }[] {
    this.#taken = [];
    return batch.entries.flatMap((entry, at) => {
      const item = results[at] ?? null;
      if (entry.kind === "amend") {
        entry.settle(item);
        return [];
      }
      if (item === null) return [];
      entry.settle(item);
      if (entry.temporaryId !== null) this.#idByTemporary.set(entry.temporaryId, item.id);
      return [{ temporaryId: entry.temporaryId, item }];
    });
  }

  /** The batch failed, maybe after it reached the disk: it goes back to the front. */
  putBack(batch: Batch): void {
    this.#taken = [];
    for (const entry of batch.entries) if (entry.kind === "append") entry.isRepeat = true;
    this.#entries = [...batch.entries, ...this.#entries];
    this.#bound();
  }

  #add(entry: Entry): void {
    this.#entries.push(entry);
    this.#bound();
  }

  #bound(): void {
    const excess = this.#entries.length - MAX_WAITING;
    if (excess <= 0) return;
    for (const entry of this.#entries.splice(0, excess)) {
      if (entry.kind === "amend") entry.settle(null);
      else this.giveTemporaryId(entry);
      this.#lost += 1;
    }
  }

  #isWaiting(temporaryId: number): boolean {
    return [...this.#taken, ...this.#entries].some((entry) =>
      entry.kind === "append" && entry.temporaryId === temporaryId
    );
  }

  #toWrite(entry: Entry): EventWrite | null {
    if (entry.kind === "append") return { kind: "append", event: entry.event, isRepeat: entry.isRepeat };
    const id = this.idOf(entry.target);
    if (id >= 0) return { kind: "amend", id, fields: entry.fields };
    // Its event was lost while it waited.
    entry.settle(null);
    return null;
  }
}
