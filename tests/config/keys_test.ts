import assert from "node:assert/strict";
import { configKeys, ENV_ALIASES, FLAG_KEYS } from "../../lib/config/keys.ts";
import { configJsonSchema, ConfigSchema } from "../../lib/config/schema.ts";

Deno.test("every key has a description and a default, and the schema takes that default", () => {
  const keys = configKeys();
  assert.ok(keys.length > 25);
  const tree: Record<string, Record<string, unknown>> = {};
  for (const { path, description, fallback } of keys) {
    assert.ok(description.length > 10, path);
    assert.notEqual(fallback, undefined, path);
    const [section = "", name = ""] = path.split(".");
    (tree[section] ??= {})[name] = fallback;
  }
  assert.deepEqual(ConfigSchema.parse(tree), ConfigSchema.parse({}));
});

Deno.test("no two keys have one variable, and flags and aliases name keys that there are", () => {
  const keys = configKeys();
  assert.equal(new Set(keys.map(({ env }) => env)).size, keys.length);
  const paths = new Set(keys.map(({ path }) => path));
  for (const path of [...Object.values(FLAG_KEYS), ...Object.values(ENV_ALIASES)]) assert.ok(paths.has(path), path);
});

Deno.test("the JSON Schema tells an editor every key, its meaning and default, and that there are no others", () => {
  const schema = configJsonSchema();
  assert.equal(schema["additionalProperties"], false);
  const text = JSON.stringify(schema);
  for (const { path, description, fallback } of configKeys()) {
    assert.ok(text.includes(JSON.stringify(description)), path);
    assert.ok(text.includes(`"default":${JSON.stringify(fallback)}`), path);
  }
});
