import assert from "node:assert/strict";
import { FAILURES } from "../../lib/model/failure.ts";
import { downloads, feeds, operations } from "../../lib/operations/registry.ts";
import { openApi } from "../../lib/show/openapi.ts";
import { violations } from "../fuzz/schema.ts";

// deno-lint-ignore no-explicit-any -- a test walks whatever the document holds
type Any = any;

const document: Any = JSON.parse(JSON.stringify(openApi("1.2.3")));

/** What the door answers by itself. */
const DOOR_OWN = ["log-in", "log-out"];

/** Every object in the document with its pointer. */
function* walk(value: unknown, pointer = "#"): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value)) yield [pointer, value as Record<string, unknown>];
  for (const [key, child] of Object.entries(value)) {
    yield* walk(child, `${pointer}/${key.replaceAll("~", "~0").replaceAll("/", "~1")}`);
  }
}

Deno.test("it is OpenAPI 3.1 with what the format requires", () => {
  assert.equal(document.openapi, "3.1.0");
  assert.deepEqual([document.info.title, document.info.version], ["HyperSwap", "1.2.3"]);
  for (const [path, item] of Object.entries<Any>(document.paths)) {
    assert.match(path, /^\//);
    for (const [method, operation] of Object.entries<Any>(item)) {
      assert.ok(["get", "post", "delete"].includes(method));
      assert.ok(Object.keys(operation.responses).every((status) => /^[1-5]\d\d$/.test(status)));
      for (const response of Object.values<Any>(operation.responses)) assert.ok(response.description);
      const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
      const declared = operation.parameters.filter((parameter: Any) => parameter.in === "path");
      assert.deepEqual(
        declared.map((parameter: Any) => [parameter.name, parameter.required]),
        inPath.map((name) => [name, true]),
      );
      for (const parameter of operation.parameters) {
        assert.ok(parameter.schema && ["path", "query", "header"].includes(parameter.in));
      }
    }
  }
  const ids = Object.values<Any>(document.paths).flatMap((item) =>
    Object.values<Any>(item).map(({ operationId }) => operationId)
  );
  assert.equal(new Set(ids).size, ids.length);
});

Deno.test("every reference points at something, and nothing points elsewhere", () => {
  const pointers = new Set([...walk(document)].map(([pointer]) => pointer));
  let references = 0;
  for (const [at, { $ref, $schema, $id, $defs }] of walk(document)) {
    if (typeof $ref === "string") {
      references += 1;
      assert.ok(pointers.has($ref), `${at} points at ${$ref}`);
    }
    assert.deepEqual([$schema, $id, $defs], [undefined, undefined, undefined], at);
  }
  assert.ok(references > 50);
});

Deno.test("it lists every operation and feed, with its parameters and errors", () => {
  for (const operation of operations) {
    const { method, path, query = [] } = operation.http;
    const described = document.paths[path]?.[method.toLowerCase()];
    assert.equal(described?.operationId, operation.name);
    assert.deepEqual(described.tags, [operation.access]);
    const body = described.requestBody?.content["application/json"].schema.properties ?? {};
    const params = described.parameters.map(({ name }: Any) => name);
    for (const { name, aliases } of operation.parameters) {
      if (method === "GET" || path.includes(`{${name}}`) || query.includes(name)) {
        assert.ok(params.includes(name), `${operation.name} ${name}`);
      }
      if (method === "POST" && !path.includes(`{${name}}`)) {
        for (const each of [name, ...aliases]) assert.ok(body[each], `${operation.name} ${each}`);
      }
    }
    for (const code of operation.fails) {
      assert.match(described.responses[FAILURES[code].http]?.description ?? "", new RegExp(code));
    }
    assert.equal(described.responses[202] !== undefined, operation.isLong, operation.name);
  }
  for (const { name, http } of feeds) {
    assert.ok(document.paths[http.path]?.get.responses[200].content["text/event-stream"], name);
  }
  const ids = Object.values<Any>(document.paths).flatMap((item) => Object.values<Any>(item)).map((one) =>
    one.operationId
  );
  const named = new Set<string>([...operations, ...feeds, ...downloads].map(({ name }) => name));
  assert.deepEqual(ids.filter((id) => !named.has(id)).sort(), DOOR_OWN, "something is described that nobody offers");
});

Deno.test("what is null when unknown says so, and units stand beside the figures", () => {
  const { Stats } = document.components.schemas;
  const { vram_used_gb, device_name } = Stats.properties.gpu.properties;
  assert.match(vram_used_gb.description, /GiB$/);
  assert.deepEqual([vram_used_gb.type, device_name.type], [["number", "null"], ["string", "null"]]);
  assert.ok(!JSON.stringify(document).includes(String(Number.MAX_SAFE_INTEGER)), "a limit that nobody chose");
  assert.deepEqual(Stats.required, Object.keys(Stats.properties), "a field may be missing instead of null");
});

Deno.test("every example fits what it is an example of, and nothing that takes or answers JSON lacks one", () => {
  let examples = 0;
  for (const [path, item] of Object.entries<Any>(document.paths)) {
    for (const [method, operation] of Object.entries<Any>(item)) {
      const contents = [operation.requestBody, ...Object.values<Any>(operation.responses)]
        .flatMap((part) => part?.content?.["application/json"] ?? []);
      for (const { schema, example } of contents) {
        // A download is data of any size, and a run holds another operation's answer: neither has one typical form.
        const isOpen = downloads.some(({ name }) => name === operation.operationId);
        if (isOpen || JSON.stringify(schema).includes('schemas/Run"')) continue;
        assert.notEqual(example, undefined, `${method} ${path}`);
        assert.deepEqual(violations(schema, example, { root: document }), [], `${method} ${path}`);
        examples += 1;
      }
      for (const { schema, example } of operation.parameters.filter((one: Any) => one.example !== undefined)) {
        assert.deepEqual(violations(schema, example, { root: document }), [], `${method} ${path}`);
      }
    }
  }
  assert.ok(examples > 200);
  // Sent as it stands by whoever tries it in the documentation.
  const { example } = document.paths["/api/request-vram"].post.requestBody.content["application/json"];
  assert.ok(example.needed_gb < 100, JSON.stringify(example));
});

Deno.test("every status it documents has a body described, and 502, 503 and 507 stand only where they can happen", () => {
  for (const { name, fails } of operations) {
    const responses = Object.values<Any>(document.paths).flatMap((item) => Object.values<Any>(item))
      .find(({ operationId }) => operationId === name)?.responses;
    for (const [code, status] of [["upstream", 502], ["unavailable", 503], ["wont_fit", 507]] as const) {
      assert.equal(responses[status] !== undefined, fails.includes(code), `${name} ${status}`);
    }
    for (const [status, { content }] of Object.entries<Any>(responses)) {
      assert.ok(status === "304" || content !== undefined, `${name} ${status}`);
    }
  }
});
