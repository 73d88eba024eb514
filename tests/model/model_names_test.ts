import assert from "node:assert/strict";
import fc from "fast-check";
import { canonical, displayName, isSameModel, parseModelName } from "../../lib/model/model_names.ts";

for (
  const [spelling, display] of [
    ["tiny", "tiny:latest"],
    ["tiny:latest", "tiny:latest"],
    ["registry.ollama.ai/library/tiny:latest", "tiny:latest"],
    ["https://registry.ollama.ai/library/tiny", "tiny:latest"],
    ["ns/tiny:v1", "ns/tiny:v1"],
    ["library/tiny", "tiny:latest"],
    ["hf.co/bartowski/Qwen2.5-7B-GGUF:Q4_K_M", "hf.co/bartowski/Qwen2.5-7B-GGUF:Q4_K_M"],
    ["localhost:5000/ns/tiny", "localhost:5000/ns/tiny:latest"],
    [" qwen3:27b ", "qwen3:27b"],
  ]
) {
  Deno.test(`${spelling} is shown as ${display}`, () => {
    const name = parseModelName(spelling ?? "");
    assert.ok(name !== null);
    assert.equal(displayName(name), display);
  });
}

Deno.test("what can't be a name is told", () => {
  for (const text of ["a b/c:::d", "", "-tiny", "a/b/c/d", "tiny:", "/tiny", `${"x".repeat(81)}`]) {
    assert.equal(parseModelName(text), null, text);
  }
});

Deno.test("spellings of one model are the same, whatever their case; other tags are not", () => {
  assert.ok(isSameModel("TINY", "tiny:latest"));
  assert.ok(isSameModel("Registry.Ollama.AI/library/tiny", "tiny"));
  assert.ok(!isSameModel("tiny", "tiny:v1"));
  assert.ok(!isSameModel("ns/tiny", "tiny"));
  assert.equal(canonical("Registry.Ollama.AI/Library/Tiny"), "tiny:latest");
});

Deno.test("a display form is a fixed point", () => {
  const part = fc.stringMatching(/^[A-Za-z0-9_][A-Za-z0-9_-]{0,8}$/);
  const name = fc.record({ host: part, namespace: part, model: part, tag: part });
  fc.assert(fc.property(name, (parts) => {
    const shown = displayName(parts);
    assert.deepEqual(parseModelName(shown), { ...parts });
  }));
});
