import assert from "node:assert/strict";
import { InBandError } from "../../lib/upstream/error_text.ts";
import { MalformedBody } from "../../lib/upstream/json_fields.ts";
import {
  parseGeneration,
  parsePs,
  parseRunnerHealth,
  parseRunnerSlots,
  parseTags,
  parseTime,
  parseWeightBlobs,
  tokensPerSecond,
} from "../../lib/upstream/ollama_parse.ts";
import { OLLAMA_VERSIONS, recorded } from "./recorded.ts";

Deno.test("ps: two rows with sizes, context and an infinite keep_alive", () => {
  const [tiny, big] = parsePs(recorded("ollama/v0.33.0/ps-two.json"));
  assert.deepEqual(tiny, {
    name: "tiny:latest",
    digest: "f436e37756d51214b9d6a6392e9abea68a208dcf167971f32c1f7e4cdd5e5b24",
    sizeBytes: 43_977_275,
    sizeVramBytes: 0,
    expiresAtMs: Date.UTC(2319, 2, 13, 18, 30, 49, 822),
    contextLength: 4096,
  });
  assert.equal(big?.name, "big:latest");
  assert.equal(big?.sizeBytes, 1_000_404_417);
});

Deno.test("ps: empty, a null list, and rows of old servers without a context length", () => {
  for (const version of OLLAMA_VERSIONS) assert.deepEqual(parsePs(recorded(`ollama/${version}/ps-empty.json`)), []);
  assert.deepEqual(parsePs('{"models":null}'), []);
  const [row] = parsePs('{"models":[{"name":"a:latest","digest":"sha256:ab","size":5,"size_vram":5}]}');
  assert.deepEqual([row?.digest, row?.contextLength, row?.expiresAtMs], ["ab", null, null]);
});

Deno.test("ps: a row that tells no size is refused, never counted as 0", () => {
  assert.throws(() => parsePs('{"models":[{"name":"a:latest","size":5}]}'), /a:latest has no size_vram/);
  assert.throws(() => parsePs('{"models":[{"size":5}]}'), MalformedBody);
  for (const text of ["", "[]", "{}", '{"models":5}', "404 page not found"]) {
    assert.throws(() => parsePs(text), MalformedBody, text);
  }
});

Deno.test("ps: the server's own zone is understood", () => {
  for (const version of OLLAMA_VERSIONS) {
    const text = recorded(`ollama/${version}/ps-tz.json`);
    assert.match(text, /-0[45]:00"/, "recorded in New York");
    const atMs = parsePs(text)[0]?.expiresAtMs ?? null;
    assert.equal(new Date(atMs ?? NaN).getUTCFullYear(), 2026);
  }
});

Deno.test("times: nanoseconds, offsets, and what is no time", () => {
  const noon = Date.UTC(2026, 11, 1, 12, 0, 0);
  assert.equal(parseTime("2026-12-01T12:00:00Z"), noon);
  assert.equal(parseTime("2026-12-01T12:00:00.123456789Z"), noon + 123);
  assert.equal(parseTime("2026-12-01T12:00:00.1Z"), noon + 100);
  assert.equal(parseTime("2026-12-01T07:00:00.5-05:00"), noon + 500);
  assert.equal(parseTime("2026-12-01T17:30:00+05:30"), noon);
  assert.equal(parseTime("0001-01-01T00:00:00Z"), null, "Go's zero time");
  for (const text of ["", "soon", "2026-12-01", "2026-13-01T12:00:00Z", "1796126400"]) {
    assert.equal(parseTime(text), null);
  }
});

Deno.test("tags: both generations, a cloud stub, a missing quantization", () => {
  for (const version of OLLAMA_VERSIONS) {
    const models = parseTags(recorded(`ollama/${version}/tags.json`));
    const big = models.find(({ name }) => name === "big:latest");
    assert.deepEqual(
      [big?.family, big?.parameterSize, big?.quantization, big?.format, big?.isRemote],
      ["llama", "435.13M", "F16", "gguf", false],
    );
    assert.deepEqual(parseTags(recorded(`ollama/${version}/tags-empty.json`)), []);
  }
  const stub = {
    name: "big:cloud",
    size: 384,
    digest: "ab",
    remote_host: "https://ollama.com:443",
    details: { format: "" },
  };
  const [cloud] = parseTags(JSON.stringify({ models: [stub] }));
  assert.deepEqual([cloud?.isRemote, cloud?.format, cloud?.quantization, cloud?.modifiedAtMs], [
    true,
    null,
    null,
    null,
  ]);
});

Deno.test("show: the comment's FROM is no blob; projector and adapter follow the weights", () => {
  const blob = (digit: string) => `sha256-${digit.repeat(64)}`;
  const modelfile = [
    `# FROM ${blob("0")}`,
    `FROM /m/blobs/${blob("a")}`,
    `ADAPTER /m/blobs/${blob("c")}`,
    `FROM /m/blobs/${blob("b")}`,
    `FROM /m/blobs/${blob("a")}`,
    `TEMPLATE """FROM /m/blobs/${blob("d")}"""`,
  ].join("\n");
  assert.deepEqual(parseWeightBlobs(JSON.stringify({ modelfile })), [blob("a"), blob("c"), blob("b")]);
  assert.deepEqual(parseWeightBlobs('{"modelfile":"FROM some-safetensors:latest\\n"}'), []);
  assert.deepEqual(parseWeightBlobs("{}"), []);
});

Deno.test("generation: what Go left out is null, and durations are milliseconds", () => {
  const old = parseGeneration(recorded("ollama/v0.24.0/generate-1tok.json"));
  assert.equal(old.loadDurationMs, 300.506802);
  assert.deepEqual([old.tokens, old.tokensDurationMs], [1, null]);
  const recent = parseGeneration(recorded("ollama/v0.33.0/generate-1tok.json"));
  assert.deepEqual([recent.tokens, recent.tokensDurationMs], [1, 0.001]);
  assert.equal(tokensPerSecond(old), null);
  assert.equal(tokensPerSecond(recent), null, "one token in a microsecond is no rate");
});

Deno.test("generation: a rate needs tokens enough to tell", () => {
  const frame = (count: number) => parseGeneration(`{"done":true,"eval_count":${count},"eval_duration":500000000}`);
  assert.equal(tokensPerSecond(frame(7)), null);
  assert.equal(tokensPerSecond(frame(8)), 16);
});

Deno.test("generation: a stream and a single body say the same", () => {
  for (const version of OLLAMA_VERSIONS) {
    const stream = parseGeneration(recorded(`ollama/${version}/generate-5tok-stream.ndjson`));
    const single = parseGeneration(recorded(`ollama/${version}/generate-5tok.json`));
    assert.equal(stream.text, single.text);
    assert.deepEqual([stream.tokens, stream.doneReason], [single.tokens, "length"]);
    assert.ok(parseGeneration(recorded(`ollama/${version}/chat-5tok-stream.ndjson`)).text.length > 0);
  }
});

Deno.test("generation: an error after the first part is an error, whatever the status said", () => {
  for (const version of OLLAMA_VERSIONS) {
    const text = recorded(`ollama/${version}/generate-runner-killed-stream.ndjson`);
    assert.throws(() => parseGeneration(text), (error) => {
      assert.ok(error instanceof InBandError);
      assert.match(error.message, /error was encountered while running the model/);
      return true;
    });
  }
});

Deno.test("generation: an end without done is incomplete", () => {
  const cut = recorded("ollama/v0.33.0/generate-5tok-stream.ndjson").trim().split("\n").slice(0, -1).join("\n");
  const generation = parseGeneration(cut);
  assert.deepEqual([generation.isDone, generation.loadDurationMs], [false, null]);
  assert.throws(() => parseGeneration("\n"), MalformedBody);
});

Deno.test("a runner's word: numbers of one generation, words of the other", () => {
  const health = (body: unknown) => parseRunnerHealth(JSON.stringify(body));
  assert.equal(health({ status: 3, progress: 0.17 }), "loading");
  assert.equal(health({ status: 2 }), "loading");
  assert.equal(health({ status: 1 }), "busy");
  assert.equal(health({ status: 0, progress: 1 }), null);
  assert.equal(health({ status: 9 }), null);
  assert.equal(health({ error: { code: 503, message: "Loading model", type: "unavailable_error" } }), "loading");
  assert.equal(health({ status: "loading model" }), "loading");
  assert.equal(health({ status: "no slot available" }), "busy");
  assert.equal(health({ status: "ok" }), null);
});

Deno.test("slots: one busy slot is busy; what is no list of slots says nothing", () => {
  const said = (text: string) => parseRunnerSlots(text).activity;
  assert.equal(said('[{"is_processing":false},{"is_processing":true}]'), "busy");
  assert.equal(said('[{"is_processing":false}]'), "idle");
  assert.equal(said("[]"), null);
  assert.equal(said('{"error":"not supported"}'), null);
});

Deno.test("slots: how much is left is the most that any of the busy ones has; an answer without a bound says nothing", () => {
  const slot = (isBusy: boolean, left?: number) => ({
    is_processing: isBusy,
    ...(left === undefined ? {} : { next_token: [{ has_next_token: true, n_remain: left, n_decoded: 13 }] }),
  });
  const left = (...slots: unknown[]) => parseRunnerSlots(JSON.stringify(slots)).tokensLeft;
  assert.equal(left(slot(true, 47)), 47);
  assert.equal(left(slot(true, 47), slot(true, 300), slot(false, 900)), 300);
  assert.equal(left(slot(true, 47), slot(true, -1)), null, "num_predict -1");
  assert.equal(left(slot(true)), null);
  assert.equal(left(slot(false, 47)), null, "what an idle slot shows is of its last answer");
  assert.equal(left({ is_processing: true, next_token: { n_remain: 5 } }), 5, "one token, not in a list");
});
