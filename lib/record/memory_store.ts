import type {
  HistoryItem,
  HistoryQuery,
  NewHistoryItem,
  StoreStatus,
  TelemetryRow,
  Throughput,
} from "../model/history.ts";
import type { Store } from "../model/ports.ts";
import { fieldsToText, parseFields } from "./fields_text.ts";
import { RecentItems } from "./recent_items.ts";

/** Events kept when nothing else is said. */
const DEFAULT_LIMIT = 10_000;

/** A Store that keeps nothing beyond the process: for the demo without a state directory, and for tests. */
export function memoryStore(options: { readonly limit?: number } = {}): Store {
  const items = new RecentItems(options.limit ?? DEFAULT_LIMIT);
  let lastId = 0;
  return {
    append(item: NewHistoryItem): Promise<HistoryItem> {
      // As the file would give it back: fields are JSON, and nobody else holds them.
      const kept = { ...item, id: ++lastId, fields: parseFields(fieldsToText(item.fields)) };
      items.add(kept);
      return Promise.resolve(kept);
    },
    amend: (id, fields) => Promise.resolve(items.amend(id, parseFields(fieldsToText(fields)))),
    telemetry: (_row: TelemetryRow) => {},
    throughput: (_measured: Throughput) => {},
    history: (query: HistoryQuery) => Promise.resolve(items.list(query)),
    status: (): Promise<StoreStatus> =>
      Promise.resolve({
        path: null,
        sizeBytes: null,
        rows: { events: items.count },
        hoursHeld: null,
        lastFlushAtMs: null,
        error: null,
        schemaVersion: null,
      }),
    close: () => Promise.resolve(),
  };
}
