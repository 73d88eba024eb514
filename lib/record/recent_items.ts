import type { HistoryItem, HistoryQuery } from "../model/history.ts";

/** The newest events in memory, in the order they happened; the oldest are forgotten beyond the limit. */
export class RecentItems {
  readonly #limit: number;
  #items: HistoryItem[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  get count(): number {
    return this.#items.length;
  }

  add(item: HistoryItem): void {
    this.#items.push(item);
    if (this.#items.length > this.#limit) this.#items.shift();
  }

  /** Gives the event called `id` another one, if it is still here. */
  rename(id: number, to: number): void {
    this.#change(id, (item) => ({ ...item, id: to }));
  }

  /** Adds fields to the event called `id`; null when it isn't here. */
  amend(id: number, fields: Readonly<Record<string, unknown>>): HistoryItem | null {
    return this.#change(id, (item) => ({ ...item, fields: { ...item.fields, ...fields } }));
  }

  /** Newest first. `before` means what happened earlier; when that event isn't here, only smaller ids. */
  list(query: Omit<HistoryQuery, "durable">): readonly HistoryItem[] {
    const { before } = query;
    const at = before === null ? this.#items.length : this.#items.findIndex((item) => item.id === before);
    const earlier = at >= 0 ? this.#items.slice(0, at) : this.#items.filter((item) => item.id < (before ?? 0));
    return earlier.filter((item) => query.kind === null || item.kind === query.kind).toReversed().slice(0, query.limit);
  }

  #change(id: number, change: (item: HistoryItem) => HistoryItem): HistoryItem | null {
    const at = this.#items.findLastIndex((item) => item.id === id);
    const known = this.#items[at];
    return known === undefined ? null : this.#items[at] = change(known);
  }
}
