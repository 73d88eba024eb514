/** An example of what a schema describes, made of the schema: defaults and choices first, then names that people use. */
import type { Json } from "./json_schema.ts";

/** What a text of that name may be. */
const TEXTS: Readonly<Record<string, string>> = {
  model: "qwen3:14b",
  model_name: "qwen3:14b",
  target_model: "qwen3:14b",
  prev_model: "llama3.2:1b",
  filepath:
    "/usr/share/ollama/.ollama/models/blobs/sha256-4f659a1e86d7f5a33c389f7991e7224b7ee6ad0358b53437d54c02d2e1b1118d",
  path:
    "/usr/share/ollama/.ollama/models/blobs/sha256-4f659a1e86d7f5a33c389f7991e7224b7ee6ad0358b53437d54c02d2e1b1118d",
  profile: "comfy",
  name: "quiet",
  keep_alive: "30m",
  until: "2h",
  prompt: "Say hello",
  workflow: "portrait",
  id: "2f6c1d0e-7a41-4c0b-9d5e-1b3a8f20c4d7",
  at: "2026-12-01T18:00:00.000Z",
  from: "2026-12-01T17:00:00Z",
  to: "2026-12-01T18:00:00Z",
  before: "2026-12-01T18:00:00Z",
  version: "0.1.0",
  url: "http://127.0.0.1:11434",
  metric: "power_w",
  message: "As it was said",
};

/** Deep enough for every answer; what lies below is left as the schema's emptiest value. */
const MAX_DEPTH = 8;

/** `name` is the field's, where it has one. */
export function exampleOf(schema: Json, name = "", depth = 0): unknown {
  if (schema["default"] !== undefined) return schema["default"];
  if (schema["const"] !== undefined) return schema["const"];
  const choices = schema["enum"];
  if (Array.isArray(choices)) return choices[0];
  const variants = schema["anyOf"] ?? schema["oneOf"];
  if (Array.isArray(variants)) return exampleOf(variants[0], name, depth);
  const { type } = schema;
  switch (Array.isArray(type) ? type[0] : type) {
    case "boolean":
      return true;
    case "integer":
    case "number":
      return numberOf(schema);
    case "array":
      return depth > MAX_DEPTH ? [] : [exampleOf(asSchema(schema["items"]), name, depth + 1)];
    case "object":
      return objectOf(schema, depth);
    case "null":
      return null;
    case "string":
      return TEXTS[name] ?? (name.endsWith("_at") ? TEXTS["at"] : name === "" ? "text" : name.replaceAll("_", " "));
    default:
      return "anything";
  }
}

function objectOf(schema: Json, depth: number): Json {
  const properties = Object.entries(asSchema(schema["properties"]));
  return Object.fromEntries(properties.map(([key, own]) => [key, exampleOf(asSchema(own), key, depth + 1)]));
}

function numberOf(schema: Json): number {
  const least = schema["minimum"] ?? schema["exclusiveMinimum"];
  const most = schema["maximum"];
  // Small, as what people ask for: a bound may be there to keep out what no machine has.
  const usual = typeof least === "number" ? least + 4 : 4;
  return typeof least === "number" && typeof most === "number" && usual > most ? Math.ceil((least + most) / 2) : usual;
}

function asSchema(value: unknown): Json {
  // A schema is an object, or `true`, which says as much as an empty one.
  return typeof value === "object" && value !== null ? value as Json : {};
}
