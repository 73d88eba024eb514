import assert from "node:assert/strict";
import { configKeys, ENV_ALIASES, FLAG_KEYS } from "../../lib/config/keys.ts";
import { FREE_SECTION, isWellFormed, KEY_KINDS } from "../../lib/config/key_kinds.ts";
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

Deno.test("the quick table of keys is the schema's: the same sections, keys and kinds", () => {
  const kinds = new Map(configKeys().map(({ path, kind }) => [path, kind === "text" ? "string" : kind]));
  const quick = Object.entries(KEY_KINDS).flatMap(([section, keys]) =>
    Object.entries(keys).map(([name, kind]) => [`${section}.${name}`, kind] as const)
  );
  const tables = quick.filter(([path]) => !kinds.has(path));
  assert.deepEqual(tables, [["access.tokens", "list"]], "what no text can set");
  assert.deepEqual(new Map(quick.filter(([path]) => kinds.has(path))), kinds);
  assert.deepEqual([...Object.keys(KEY_KINDS), FREE_SECTION].sort(), Object.keys(ConfigSchema.shape).sort());
});

Deno.test("a file with an unknown section, an unknown key or a value of another kind isn't well formed", () => {
  const good = { server: { port: 9300 }, arbitration: { keep: ["a"] }, needs: { "any:1b": 2 }, log: {} };
  assert.ok(isWellFormed(good));
  const wrong: readonly Record<string, unknown>[] = [
    { servr: {} },
    { server: { prot: 9300 } },
    { server: { port: "9300" } },
    { warm: { at_start: 1 } },
    { needs: { comfyui: "4" } },
    { log: "debug" },
    { port: 9300 },
    { constructor: {} },
    { server: { constructor: "x" } },
  ];
  for (const tree of wrong) assert.ok(!isWellFormed({ ...good, ...tree }), JSON.stringify(tree));
});
