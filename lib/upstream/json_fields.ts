/** Reads fields of parsed JSON without trusting it. An absent or ill-typed field is null: Go leaves zero values out. */

/** A body that isn't what its route promises. The client turns it into an UpstreamError that knows the URL. */
export class MalformedBody extends Error {
  override readonly name = "MalformedBody";
}

export type JsonRecord = Readonly<Record<string, unknown>>;

export function isRecord(value: unknown): value is JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** Parses text as JSON; throws MalformedBody with the first characters of what came instead. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    throw new MalformedBody(`body is not JSON: ${excerpt(text)}`, { cause });
  }
}

/** Parses text as a JSON object. */
export function parseRecord(text: string): JsonRecord {
  const value = parseJson(text);
  if (!isRecord(value)) throw new MalformedBody(`body is not a JSON object: ${excerpt(text)}`);
  return value;
}

export function textField(record: JsonRecord, key: string): string | null {
  const value = record[key];
  return typeof value === "string" ? value : null;
}

/** A string field, with "" counted as absent. */
export function filledField(record: JsonRecord, key: string): string | null {
  const value = textField(record, key);
  return value === "" ? null : value;
}

export function numberField(record: JsonRecord, key: string): number | null {
  const value = record[key];
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function recordField(record: JsonRecord, key: string): JsonRecord | null {
  const value = record[key];
  return isRecord(value) ? value : null;
}

/** A list field, or null when it is absent or something else. */
export function listField(record: JsonRecord, key: string): readonly unknown[] | null {
  const value = record[key];
  return Array.isArray(value) ? value : null;
}

/** Only the strings of a list. */
export function strings(values: readonly unknown[]): readonly string[] {
  return values.filter((value) => typeof value === "string");
}

/** The beginning of a body, on one line, for messages. */
export function excerpt(text: string, length = 200): string {
  const line = text.replaceAll(/\s+/g, " ").trim();
  if (line === "") return "(empty)";
  return line.length > length ? `${line.slice(0, length)}…` : line;
}
