/** Whether an entry names a path: `folder/`, a file, or with `*` at its end the files that begin so. */
export function covers(entry: string, path: string): boolean {
  if (entry.endsWith("/")) return path.startsWith(entry);
  return entry.endsWith("*") ? path.startsWith(entry.slice(0, -1)) : path === entry;
}
