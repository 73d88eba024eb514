/**
 * The live stream's frames, without imports so that the dashboard can replay them with the same code.
 *
 * `GET /api/stream` sends `event: snapshot` first (data: the whole of `/api/stats`), then `event: patch` (data: a Patch).
 * A client that could not keep up gets another `snapshot`, which replaces everything. Applying a patch:
 * 1. `/timestamp` becomes `t`, `/revision` becomes `r`;
 * 2. `prepend["/history"]` goes in front of the list, which is then cut to HISTORY_SHOWN;
 * 3. every list in `relist` is made anew: a number stands for the item that was there in the list before;
 * 4. every pointer in `set` (JSON Pointer, RFC 6901) gets its value; whatever was there, objects and lists too, is replaced.
 * The result is `/api/stats` of that revision, field for field: both doors show one state, and whoever compares them
 * compares two documents with the same `revision`.
 */

/** Items that `/api/stats` and the stream show. */
export const HISTORY_SHOWN = 50;

export interface Patch {
  /** Unix seconds of the sample: the new `/timestamp`. */
  readonly t: number;
  /** The new `/revision`. */
  readonly r: number;
  /** JSON pointer of a list → the list anew; a number is the item of the list before. Lists of numbers aren't sent so. */
  readonly relist?: Readonly<Record<string, readonly unknown[]>>;
  /** JSON pointer → new value. */
  readonly set?: Readonly<Record<string, unknown>>;
  /** JSON pointer of a list → new items, newest first. */
  readonly prepend?: Readonly<Record<string, readonly unknown[]>>;
}

export type Frame =
  | { readonly event: "snapshot"; readonly data: Readonly<Record<string, unknown>> }
  | { readonly event: "patch"; readonly data: Patch };

type Json = Readonly<Record<string, unknown>>;

/**
 * The state after one frame; `state` is left as it was, and what did not change keeps its identity (so a view may
 * compare by reference). A patch without a state before it is a mistake of the caller and throws.
 */
export function applyFrame<State extends object>(state: State | null, frame: Frame): State {
  // The stream sends what State describes; only the server's schema can check it, and it has.
  if (frame.event === "snapshot") return frame.data as State;
  if (state === null) throw new TypeError("Cannot apply a patch before the first snapshot");
  let next: unknown = { ...state, timestamp: frame.data.t, revision: frame.data.r };
  for (const [pointer, items] of Object.entries(frame.data.prepend ?? {})) {
    const before = asList(read(next, pathOf(pointer)));
    next = write(next, pathOf(pointer), [...items, ...before].slice(0, HISTORY_SHOWN));
  }
  for (const [pointer, items] of Object.entries(frame.data.relist ?? {})) {
    next = write(next, pathOf(pointer), listAnew(asList(read(next, pathOf(pointer))), items));
  }
  for (const [pointer, value] of Object.entries(frame.data.set ?? {})) next = write(next, pathOf(pointer), value);
  // Same shape as before: a patch only replaces values that the schema has.
  return next as State;
}

/** The patch that leads from one `/api/stats` to the next; both hold the same keys at the top. */
export function diffStats(before: object, after: object): Patch {
  const changes: Changes = { set: {}, relist: {} };
  // Both are JSON objects by the schema; a Record is how they are walked.
  const [from, to] = [before as Json, after as Json];
  const added = newItems(from["history"], to["history"]);
  for (const key of Object.keys(to)) {
    if (key === "timestamp" || key === "revision") continue;
    const base = key === "history" && added.length > 0
      ? [...added, ...asList(from[key])].slice(0, HISTORY_SHOWN)
      : from[key];
    diff(base, to[key], `/${escape(key)}`, changes);
  }
  return {
    t: Number(to["timestamp"]),
    r: Number(to["revision"]),
    ...(added.length > 0 ? { prepend: { "/history": added } } : {}),
    ...(Object.keys(changes.relist).length > 0 ? { relist: changes.relist } : {}),
    ...(Object.keys(changes.set).length > 0 ? { set: changes.set } : {}),
  };
}

interface Changes {
  readonly set: Record<string, unknown>;
  readonly relist: Record<string, readonly unknown[]>;
}

/** Adds what turns `before` into `after` below `pointer`: field by field, or the whole where that is shorter. */
function diff(before: unknown, after: unknown, pointer: string, changes: Changes): void {
  if (before === after) return;
  const order = newOrder(before, after);
  const base = order === null ? before : listAnew(asList(before), order);
  const pairs = sideBySide(base, after);
  if (pairs === null) {
    changes.set[pointer] = after;
    return;
  }
  const parts: Changes = { set: {}, relist: order === null ? {} : { [pointer]: order } };
  for (const [key, from, to] of pairs) diff(from, to, `${pointer}/${escape(key)}`, parts);
  const partChars = charsOf(parts.set) + charsOf(parts.relist);
  if (partChars === 0) return;
  if (partChars > JSON.stringify(after).length + JSON.stringify({ [pointer]: 0 }).length) {
    changes.set[pointer] = after;
    return;
  }
  Object.assign(changes.set, parts.set);
  Object.assign(changes.relist, parts.relist);
}

/** Zero when there is nothing in it. */
function charsOf(entries: Readonly<Record<string, unknown>>): number {
  const chars = JSON.stringify(entries).length;
  return chars <= "{}".length ? 0 : chars;
}

/**
 * Where items of a list came, went or changed places: the list anew, a number for what stood there before. Null where
 * nothing moved, and where items can't be told from one another.
 */
function newOrder(before: unknown, after: unknown): readonly unknown[] | null {
  if (!Array.isArray(before) || !Array.isArray(after)) return null;
  const [from, to] = [before.map(nameOf), after.map(nameOf)];
  const places = new Map(from.map((name, index) => [name, index]));
  if (places.size < from.length || new Set(to).size < to.length || from.includes(null) || to.includes(null)) {
    return null;
  }
  if (from.length === to.length && to.every((name, index) => name === from[index])) return null;
  return after.map((item, index) => places.get(to[index] ?? null) ?? item);
}

/** What an item is called by; null when it has nothing of the kind. */
function nameOf(item: unknown): string | null {
  if (!isObject(item)) return null;
  const name = item["id"] ?? item["pid"] ?? item["name"];
  return name === undefined || name === null ? null : JSON.stringify(name);
}

/** Undoes `newOrder`. */
function listAnew(before: readonly unknown[], items: readonly unknown[]): readonly unknown[] {
  return items.map((item) => (typeof item === "number" ? before[item] : item));
}

/** Children of two objects with the same keys, or of two lists of the same length; null where only replacing helps. */
function sideBySide(before: unknown, after: unknown): readonly (readonly [string, unknown, unknown])[] | null {
  if (Array.isArray(before) && Array.isArray(after)) {
    return before.length === after.length ? after.map((value, index) => [String(index), before[index], value]) : null;
  }
  if (!isObject(before) || !isObject(after)) return null;
  const keys = Object.keys(after);
  if (keys.length !== Object.keys(before).length || !keys.every((key) => Object.hasOwn(before, key))) return null;
  return keys.map((key) => [key, before[key], after[key]]);
}

/** The items at the head of `after` that `before` doesn't have, told by their id. */
function newItems(before: unknown, after: unknown): readonly unknown[] {
  const known = new Set(asList(before).map(idOf));
  const items = asList(after);
  const firstKnown = items.findIndex((item) => known.has(idOf(item)));
  return firstKnown < 0 ? [] : items.slice(0, firstKnown);
}

function idOf(item: unknown): unknown {
  return isObject(item) ? item["id"] : undefined;
}

function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function isObject(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function escape(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

function pathOf(pointer: string): readonly string[] {
  return pointer.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function read(value: unknown, path: readonly string[]): unknown {
  let at = value;
  for (const key of path) at = Array.isArray(at) ? at[Number(key)] : isObject(at) ? at[key] : undefined;
  return at;
}

/** A copy of `value` with one place replaced; everything beside the way there is shared with the original. */
function write(value: unknown, path: readonly string[], replacement: unknown): unknown {
  const [key, ...rest] = path;
  if (key === undefined) return replacement;
  if (Array.isArray(value)) {
    return value.map((item, index) => (index === Number(key) ? write(item, rest, replacement) : item));
  }
  if (!isObject(value)) throw new TypeError(`Cannot apply a patch: nothing at ${key} to change`);
  return { ...value, [key]: write(value[key], rest, replacement) };
}
