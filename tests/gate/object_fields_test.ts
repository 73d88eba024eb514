import assert from "node:assert/strict";
import fc from "fast-check";
import { objectFields, parseValue } from "../../lib/gate/object_fields.ts";
import { requestFacts } from "../../lib/gate/request_facts.ts";

const bytes = (text: string) => new TextEncoder().encode(text);

Deno.test("every field of any object is found, as JSON reads it", () => {
  const spaces = fc.constantFrom("", " ", "\n\t", "\r\n  ");
  const object = fc.dictionary(fc.string(), fc.jsonValue());
  fc.assert(
    fc.property(object, spaces, (value, space) => {
      const text = `${space}${JSON.stringify(value, null, space)}${space}`;
      const fields = objectFields(bytes(text));
      const read = Object.fromEntries([...fields ?? []].map(([name, part]) => [name, parseValue(part)]));
      assert.deepEqual(read, JSON.parse(text));
    }),
    { numRuns: 300 },
  );
});

Deno.test("of a text that is cut off anywhere, the fields before the cut are found and none is made up", () => {
  const text = JSON.stringify({ model: "tiny", options: { "a\\": ['"', "}"] }, images: ["x".repeat(20)], last: -1.5 });
  const whole: Record<string, unknown> = JSON.parse(text);
  for (let length = 0; length < text.length; length += 1) {
    const fields = objectFields(bytes(text.slice(0, length))) ?? new Map<string, Uint8Array>();
    for (const [name, part] of fields) assert.deepEqual(parseValue(part), whole[name], text.slice(0, length));
    assert.equal(fields.has("model"), length > text.indexOf(',"options"'));
  }
});

for (const text of ["", "[]", "null", '"a"', "x", "  "]) {
  Deno.test(`no object: ${JSON.stringify(text)}`, () => assert.equal(objectFields(bytes(text)), null));
}

Deno.test("broken JSON neither throws nor loops", () => {
  fc.assert(
    fc.property(fc.array(fc.constantFrom(...'{}[]",:\\ a1')), (characters) => {
      objectFields(bytes(characters.join("")));
    }),
    { numRuns: 500 },
  );
});

Deno.test("Ollama's names in any case, ComfyUI's as they are; of two the last", () => {
  const ollama = { tenant: "ollama", path: "/api/chat" } as const;
  const facts = (text: string) => requestFacts(bytes(text), ollama);
  assert.equal(facts('{"MODEL":"a"}').model, "a");
  assert.equal(facts('{"model":"a","model":"b"}').model, "b");
  assert.equal(facts('{"model":7}').model, null);
  assert.equal(facts('{"Options":{"num_ctx":4096}}').contextLength, 4096);
  const comfy = requestFacts(bytes('{"CLIENT_ID":{},"prompt":{"1":{"inputs":{"ckpt_name":"a.safetensors"}}}}'), {
    tenant: "comfyui",
    path: "/prompt",
  });
  assert.deepEqual([comfy.kills, comfy.files], [null, ["a.safetensors"]]);
});

for (
  const [text, path, takes] of [
    ['{"model":"a","keep_alive":0}', "/api/generate", false],
    ['{"model":"a","keep_alive":"0s","prompt":""}', "/api/generate", false],
    ['{"model":"a","keep_alive":0,"prompt":"x"}', "/api/generate", true],
    ['{"model":"a","keep_alive":-1}', "/api/generate", true],
    ['{"model":"a","keep_alive":"10m"}', "/api/generate", true],
    ['{"model":"a"}', "/api/generate", true],
    ['{"model":"a","keep_alive":0,"messages":[ ]}', "/api/chat", false],
    ['{"model":"a","keep_alive":0,"messages":[{}]}', "/api/chat", true],
    ['{"model":"a","keep_alive":0,"input":""}', "/api/embed", true],
    ['{"model":"gpt-oss:120b-cloud"}', "/api/chat", false],
    ['{"model":"cloudy"}', "/api/chat", true],
    ["not JSON", "/api/chat", false],
    ["[]", "/api/chat", false],
    ["", "/api/generate", false],
    ['{"model":"a"', "/api/chat", true],
  ] as const
) {
  Deno.test(`${takes ? "takes" : "takes no"} memory: ${path} ${text}`, () => {
    assert.equal(requestFacts(bytes(text), { tenant: "ollama", path }).takesMemory, takes);
  });
}
