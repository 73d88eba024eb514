/**
 * Model names as Ollama writes them: `[scheme://][host/][namespace/]model[:tag]`. Two spellings of one model compare
 * equal here; Ollama echoes a name as it was sent, but lists it in its shortest form, always with a tag.
 */

export interface ModelName {
  readonly host: string;
  readonly namespace: string;
  readonly model: string;
  readonly tag: string;
}

const DEFAULT_HOST = "registry.ollama.ai";
const DEFAULT_NAMESPACE = "library";
const DEFAULT_TAG = "latest";

const HOST = /^[A-Za-z0-9_][A-Za-z0-9_.:-]{0,349}$/;
const NAMESPACE = /^[A-Za-z0-9_][A-Za-z0-9_-]{0,79}$/;
const PART = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}$/;

/** Null when it can't be a model's name (Ollama would answer `invalid model name`). */
export function parseModelName(text: string): ModelName | null {
  const rest = text.trim().replace(/^[A-Za-z][A-Za-z0-9+.-]*:\/\//, "");
  // The tag's colon comes after the last slash; one before it belongs to the host's port.
  const colon = rest.lastIndexOf(":");
  const hasTag = colon > rest.lastIndexOf("/");
  const path = (hasTag ? rest.slice(0, colon) : rest).split("/");
  const tag = hasTag ? rest.slice(colon + 1) : DEFAULT_TAG;
  const model = path.pop() ?? "";
  const namespace = path.pop() ?? DEFAULT_NAMESPACE;
  const host = path.pop() ?? DEFAULT_HOST;
  if (path.length > 0) return null;
  const isValid = PART.test(model) && PART.test(tag) && NAMESPACE.test(namespace) && HOST.test(host);
  return isValid ? { host, namespace, model, tag } : null;
}

/** The shortest form, always with tag: "tiny:latest", "ns/tiny:v1", "host/ns/tiny:v1". */
export function displayName({ host, namespace, model, tag }: ModelName): string {
  if (!equalsIgnoringCase(host, DEFAULT_HOST)) return `${host}/${namespace}/${model}:${tag}`;
  return equalsIgnoringCase(namespace, DEFAULT_NAMESPACE) ? `${model}:${tag}` : `${namespace}/${model}:${tag}`;
}

/** The form in which names are compared: lower case, as Ollama's own look-up takes them, with a tag and no defaults. */
export function canonical(text: string): string {
  const name = parseModelName(text);
  if (name !== null) return displayName(name).toLowerCase();
  const lower = text.trim().toLowerCase();
  return lower.lastIndexOf(":") > lower.lastIndexOf("/") ? lower : `${lower}:${DEFAULT_TAG}`;
}

/** True when both spell the same model. */
export function isSameModel(a: string, b: string): boolean {
  return a === b || canonical(a) === canonical(b);
}

function equalsIgnoringCase(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}
