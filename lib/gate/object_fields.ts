/** An object's own fields, found in its JSON without parsing what nobody asks for: a chat may carry pictures of 20 MB. */

const [QUOTE, BACKSLASH, COMMA, COLON] = [0x22, 0x5c, 0x2c, 0x3a];
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_LIST, CLOSE_LIST] = [0x7b, 0x7d, 0x5b, 0x5d];

const decoder = new TextDecoder();

/** The text of each field's value, by name; of a name that comes twice the last, as both upstreams read it. */
export type ObjectFields = ReadonlyMap<string, Uint8Array>;

/**
 * Reads as far as the bytes go: those of a body that is cut off give the fields that are whole. Null where they begin
 * no object. Values aren't checked; who wants one parses it.
 */
export function objectFields(bytes: Uint8Array): ObjectFields | null {
  const fields = new Map<string, Uint8Array>();
  let at = skipSpace(bytes, 0);
  if (bytes[at] !== OPEN_OBJECT) return null;
  at = skipSpace(bytes, at + 1);
  while (bytes[at] === QUOTE) {
    const nameEnd = endOfString(bytes, at);
    const name = parseValue(bytes.subarray(at, nameEnd));
    const colon = skipSpace(bytes, nameEnd);
    if (typeof name !== "string" || bytes[colon] !== COLON) break;
    const start = skipSpace(bytes, colon + 1);
    const end = endOfValue(bytes, start);
    const next = skipSpace(bytes, end);
    if (next >= bytes.length) break;
    fields.set(name, bytes.subarray(start, end));
    if (bytes[next] !== COMMA) break;
    at = skipSpace(bytes, next + 1);
  }
  return fields;
}

/** A value's text as what it stands for; undefined where it is no JSON. */
export function parseValue(text: Uint8Array): unknown {
  try {
    return JSON.parse(decoder.decode(text));
  } catch {
    // What the upstream makes of it is its own affair.
    return undefined;
  }
}

function skipSpace(bytes: Uint8Array, from: number): number {
  let at = from;
  for (let byte = bytes[at]; byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09; byte = bytes[at]) {
    at += 1;
  }
  return at;
}

/** Behind the closing quote, or behind the last byte. */
function endOfString(bytes: Uint8Array, from: number): number {
  for (let at = bytes.indexOf(QUOTE, from + 1); at >= 0; at = bytes.indexOf(QUOTE, at + 1)) {
    let slashes = 0;
    while (at - 1 - slashes > from && bytes[at - 1 - slashes] === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
  return bytes.length;
}

function endOfValue(bytes: Uint8Array, from: number): number {
  let depth = 0;
  for (let at = from; at < bytes.length;) {
    const byte = bytes[at];
    if (byte === QUOTE) {
      at = endOfString(bytes, at);
      if (depth === 0) return at;
      continue;
    }
    const closes = byte === CLOSE_OBJECT || byte === CLOSE_LIST;
    if (depth === 0 && (closes || byte === COMMA)) return at;
    if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
    if (closes) depth -= 1;
    at += 1;
    if (closes && depth === 0) return at;
  }
  return bytes.length;
}
