import type { HistoryItem, HistoryQuery, StoreStatus } from "../model/history.ts";
import type { Store } from "../model/ports.ts";
import type { History } from "../model/services.ts";
import type { WallMs } from "../model/units.ts";

/** What was kept, as operations ask for it. */
export class HistoryService implements History {
  readonly #store: Store;
  readonly #startedAtMs: WallMs;

  constructor(store: Store, startedAtMs: WallMs) {
    this.#store = store;
    this.#startedAtMs = startedAtMs;
  }

  async list(query: HistoryQuery): Promise<readonly HistoryItem[]> {
    const items = await this.#store.history({ ...query, durable: true });
    return query.durable ? items : items.filter((item) => item.atMs >= this.#startedAtMs);
  }

  status(): Promise<StoreStatus> {
    return this.#store.status();
  }
}
