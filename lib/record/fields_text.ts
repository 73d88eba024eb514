import { messageOf } from "../model/failure.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Fields as JSON text. What JSON can't hold is left out or written as text: an event is never lost to one field. */
export function fieldsToText(fields: Fields): string {
  try {
    return JSON.stringify(fields, (_name, value) => typeof value === "bigint" ? value.toString() : value);
  } catch (error) {
    return JSON.stringify({ unserialisable: messageOf(error), names: Object.keys(fields) });
  }
}

/** Fields from their text; what is no JSON object is shown as it stands rather than lost. */
export function parseFields(text: string): Fields {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    return { unreadable: text };
  }
  // A JSON object has string keys by definition.
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : { unreadable: text };
}
