/** Whose a file is, and under which names its models go. */
import { labelOf } from "../decide/warm_plan.ts";
import type { CatalogueEntry } from "../model/catalogue.ts";

export interface Named {
  readonly source: CatalogueEntry["source"];
  readonly labels: readonly string[];
}

/** By path. */
export function namesByPath(entries: readonly CatalogueEntry[]): ReadonlyMap<string, Named> {
  const names = new Map<string, Named>();
  for (const entry of entries) {
    for (const path of entry.files) {
      const before = names.get(path);
      names.set(path, { source: before?.source ?? entry.source, labels: [...before?.labels ?? [], labelOf(entry)] });
    }
  }
  return names;
}
