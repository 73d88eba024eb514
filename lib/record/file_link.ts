import type { StoreFile } from "./store_file.ts";
import type { StoreLink } from "./store_link.ts";

/** The file in the caller's own thread: each call blocks it for as long as the disk takes. */
export function fileLink(path: string, file: StoreFile): StoreLink {
  return {
    path,
    writeEvents: async (writes) => await file.writeEvents(writes),
    writeTelemetry: async (rows) => await file.writeTelemetry(rows),
    writeThroughput: async (measured) => await file.writeThroughput(measured),
    rollUp: async () => await file.rollUp(),
    history: async (query) => await file.history(query),
    status: async () => await file.status(),
    prune: async (nowMs) => await file.prune(nowMs),
    close: async () => await file.close(),
  };
}
