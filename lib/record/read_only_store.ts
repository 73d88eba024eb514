import type { Store } from "../model/ports.ts";

/** A Store that gives what another one kept and keeps nothing itself: for a process that doesn't own the record. */
export function readOnlyStore(inner: Store): Store {
  return {
    append: (item) => Promise.resolve({ ...item, id: 0 }),
    amend: () => Promise.resolve(null),
    telemetry: () => {},
    throughput: () => {},
    history: (query) => inner.history(query),
    status: () => inner.status(),
    close: () => inner.close(),
  };
}
