import { toIso, type WallMs } from "../model/units.ts";

/** A database and what belongs to it; the journal may hold commits that the file doesn't have yet. */
const PARTS = ["", "-wal", "-shm"] as const;

/**
 * Renames a database to `<path>.<why>-<timestamp>`, journal included, so that SQLite's own tools can open the copy.
 * Answers the new path.
 */
export function setAside(path: string, options: { readonly why: string; readonly atMs: WallMs }): string {
  const stamp = toIso(options.atMs).replaceAll(/[-:]|\.\d+/g, "");
  const kept = unusedPath(`${path}.${options.why}-${stamp}`);
  for (const part of PARTS) {
    try {
      Deno.renameSync(path + part, kept + part);
    } catch (error) {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    }
  }
  return kept;
}

/** A rename would replace what was kept in the same second. */
function unusedPath(wanted: string): string {
  for (let n = 1;; n++) {
    const path = n === 1 ? wanted : `${wanted}-${n}`;
    try {
      Deno.lstatSync(path);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return path;
      throw error;
    }
  }
}
