import { excerpt, isRecord, textField } from "./json_fields.ts";

/** A 200 that carries an error instead of an answer: failures after the first streamed part arrive this way. */
export class InBandError extends Error {
  override readonly name = "InBandError";
}

/**
 * What an error body says, in one line, or null when it says nothing. Knows Ollama's `{"error": "…"}`, the wrapped
 * forms of its /v1 routes (`{"error": {"message": "…"}}`), ComfyUI's `{"error": {message, details}}`, and plain text.
 */
export function errorText(body: string): string | null {
  const text = errorMessage(body) ?? body;
  return text.trim() === "" ? null : excerpt(text, 500);
}

/** The error that a JSON body carries, whole; null when it carries none. */
export function errorMessage(body: string): string | null {
  if (!body.includes('"error"')) return null;
  let value: unknown;
  try {
    value = JSON.parse(body);
  } catch {
    // Not JSON: then its own text is all it says.
    return null;
  }
  if (!isRecord(value)) return null;
  const { error } = value;
  if (typeof error === "string") return error;
  if (!isRecord(error)) return null;
  const parts = [textField(error, "message"), textField(error, "details")].filter((part) => part);
  return parts.length === 0 ? null : parts.join(": ");
}
