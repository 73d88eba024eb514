import assert from "node:assert/strict";
import { parseKeepAlive } from "../../lib/lab/keep_alive.ts";
import { aliasOf, labModel, parseName } from "../../lib/lab/ollama_models.ts";
import { OllamaServer } from "../../lib/lab/ollama_server.ts";
import { answered, type Ask, openScene, shapeOf } from "./scene.ts";

const FIXTURES = new URL("../fixtures/ollama/", import.meta.url);
const VERSIONS = ["0.24.0", "0.33.0"] as const;

type Case = readonly [file: string, path: string, ask: Ask, status?: number];

const generate = (body: Record<string, unknown>): Ask => ({ body });
const OPTIONS = { num_predict: 5, seed: 1, temperature: 0 };
const ONE = { num_predict: 1, seed: 1, temperature: 0 };
const HELLO = [{ role: "user", content: "hello" }];

/** In the order they were recorded, as far as a scene needs it: what is loaded by one is there for the next. */
const CASES: readonly Case[] = [
  ["version.json", "/api/version", {}],
  ["ps-empty.json", "/api/ps", {}],
  ["tags.json", "/api/tags", {}],
  ["show-embed.json", "/api/show", generate({ model: "embedder" })],
  ["generate-load.json", "/api/generate", generate({ model: "tiny" })],
  ["ps-one.json", "/api/ps", {}],
  ["generate-load-stream.json", "/api/generate", generate({ model: "tiny", stream: true })],
  ["generate-load-big.json", "/api/generate", generate({ model: "big", keep_alive: 300 })],
  ["ps-two.json", "/api/ps", {}],
  ["generate-unload.json", "/api/generate", generate({ model: "tiny", keep_alive: 0 })],
  ["generate-unload-notloaded.json", "/api/generate", generate({ model: "tiny", keep_alive: 0 })],
  [
    "generate-1tok.json",
    "/api/generate",
    generate({ model: "tiny", prompt: "hello world", stream: false, options: ONE }),
  ],
  [
    "generate-5tok.json",
    "/api/generate",
    generate({ model: "tiny", prompt: "one two", stream: false, options: OPTIONS }),
  ],
  ["chat-load.json", "/api/chat", generate({ model: "tiny" })],
  ["chat-load-emptymsgs.json", "/api/chat", generate({ model: "tiny", messages: [] })],
  ["chat-1tok.json", "/api/chat", generate({ model: "tiny", messages: HELLO, stream: false, options: ONE })],
  ["chat-unload.json", "/api/chat", generate({ model: "tiny", messages: [], keep_alive: 0 })],
  ["embed.json", "/api/embed", generate({ model: "embedder", input: "abc def" })],
  ["embed-two.json", "/api/embed", generate({ model: "embedder", input: ["ab", "cd"] })],
  ["embeddings-legacy.json", "/api/embeddings", generate({ model: "embedder", prompt: "abc def" })],
  ["generate-unload-embedonly.json", "/api/generate", generate({ model: "embedder", keep_alive: 0 })],
];

/** Answered word for word as recorded. */
const EXACT: readonly Case[] = [
  ["tags-empty.json", "/api/tags", { headers: { "x-scene": "empty" } }],
  ["root.txt", "/", {}],
  ["err-generate-unknown.json", "/api/generate", generate({ model: "nope", prompt: "x" }), 404],
  ["err-generate-unknown-unload.json", "/api/generate", generate({ model: "nope", keep_alive: 0 }), 404],
  ["err-generate-unknown-stream.json", "/api/generate", generate({ model: "nope", prompt: "x", stream: true }), 404],
  ["err-chat-unknown.json", "/api/chat", generate({ model: "nope", messages: HELLO }), 404],
  ["err-show-unknown.json", "/api/show", generate({ model: "nope" }), 404],
  ["err-embed-unknown.json", "/api/embed", generate({ model: "nope", input: "x" }), 404],
  ["err-embeddings-unknown.json", "/api/embeddings", generate({ model: "nope", prompt: "x" }), 404],
  ["err-delete-unknown.json", "/api/delete", { method: "DELETE", body: { model: "nope" } }, 404],
  ["err-bad-json.json", "/api/generate", { raw: '{"model":' }, 400],
  ["err-bad-json2.json", "/api/generate", { raw: "hello" }, 400],
  ["err-empty-body.json", "/api/generate", { raw: "" }, 400],
  ["err-array-body.json", "/api/generate", { raw: "[]" }, 400],
  ["err-no-model.json", "/api/generate", generate({}), 404],
  ["err-no-model-chat.json", "/api/chat", generate({}), 400],
  ["err-no-model-embed.json", "/api/embed", generate({}), 404],
  ["err-no-model-show.json", "/api/show", generate({}), 400],
  ["err-bad-name.json", "/api/generate", generate({ model: "a b/c:::d" }), 400],
  ["err-wrong-type.json", "/api/generate", generate({ model: 5 }), 400],
  ["err-keepalive-unit.json", "/api/generate", generate({ model: "tiny", keep_alive: "300" }), 400],
  ["err-keepalive-minus1-string.json", "/api/generate", generate({ model: "tiny", keep_alive: "-1" }), 400],
  ["err-keepalive-bool.json", "/api/generate", generate({ model: "tiny", keep_alive: true }), 400],
  ["err-keepalive-text.json", "/api/generate", generate({ model: "tiny", keep_alive: "forever" }), 400],
  ["err-wrong-method-generate.txt", "/api/generate", {}, 405],
  ["err-wrong-method-ps.txt", "/api/ps", generate({}), 405],
  ["err-unknown-path.txt", "/api/nope", {}, 404],
  ["err-trailing-slash.txt", "/api/ps/", {}, 301],
  ["options-plain.txt", "/api/generate", { method: "OPTIONS" }, 405],
  ["err-bad-option.json", "/api/generate", generate({ model: "tiny", options: { num_ctx: "big" } }), 500],
  ["err-generate-on-embed.json", "/api/generate", generate({ model: "embedder", prompt: "x" }), 400],
  ["err-generate-load-on-embed.json", "/api/generate", generate({ model: "embedder" }), 400],
  ["err-chat-on-embed.json", "/api/chat", generate({ model: "embedder" }), 400],
  ["embed-empty.json", "/api/embed", generate({ model: "embedder", input: "" })],
  ["embed-emptyarr.json", "/api/embed", generate({ model: "embedder", input: [] })],
];

function openOllama(version: typeof VERSIONS[number]) {
  const scene = openScene();
  const big = labModel({ name: "big", blobBytes: 870e6, embeddingLength: 1_536 });
  const tiny = labModel({ name: "tiny", blobBytes: 22e6 });
  const embedder = labModel({
    name: "embedder",
    blobBytes: 1_206_354,
    isEmbedding: true,
    embeddingLength: 128,
    family: "bert",
  });
  const server = new OllamaServer({
    ground: scene.ground,
    version,
    models: [tiny, big, embedder, aliasOf(tiny, "ns/tiny:v1")],
  });
  return {
    server,
    scene,
    call: (path: string, options: Ask = {}) => answered(scene.clock, server.url + path, options),
    async [Symbol.asyncDispose]() {
      await server[Symbol.asyncDispose]();
      scene[Symbol.dispose]();
      assert.deepEqual(scene.errors, []);
    },
  };
}

const recorded = (version: string, file: string) => Deno.readTextFileSync(new URL(`v${version}/${file}`, FIXTURES));

for (const version of VERSIONS) {
  Deno.test(`${version}: bodies have the keys and types of the recorded ones, in their order`, async () => {
    await using box = openOllama(version);
    for (const [file, path, init, status = 200] of CASES) {
      const answer = await box.call(path, init);
      assert.equal(answer.status, status, file);
      assert.equal(answer.type, "application/json; charset=utf-8", file);
      const [got, want] = [JSON.parse(answer.text), JSON.parse(recorded(version, file))] as [unknown, unknown];
      if (file.startsWith("show")) {
        assert.deepEqual(
          Object.keys(got as object),
          Object.keys(want as object).filter((key) => key !== "system"),
          file,
        );
        continue;
      }
      assert.deepEqual(shapeOf(got), shapeOf(want), file);
      assert.equal(JSON.stringify(shapeOf(got)), JSON.stringify(shapeOf(want)), `${file}: order of keys`);
    }
  });

  Deno.test(`${version}: errors and plain texts are word for word the recorded ones`, async () => {
    await using box = openOllama(version);
    const models = [...box.server.installed];
    for (const [file, path, init, status = 200] of EXACT) {
      box.server.installed.splice(0, Infinity, ...(init.headers === undefined ? models : []));
      const answer = await box.call(path, init);
      assert.equal(answer.status, status, file);
      assert.equal(answer.text, recorded(version, file), file);
      const isJson = file.endsWith(".json");
      assert.equal(answer.type?.startsWith(isJson ? "application/json" : "text/plain") ?? status === 301, true, file);
    }
  });

  Deno.test(`${version}: a stream's frames are the recorded ones in shape, one a line`, async () => {
    await using box = openOllama(version);
    const frames = (text: string) => text.trim().split("\n").map((line) => JSON.parse(line) as Record<string, unknown>);
    const asks = [
      ["generate-5tok-stream.ndjson", "/api/generate", {
        model: "tiny",
        prompt: "one two",
        stream: true,
        options: OPTIONS,
      }],
      ["chat-5tok-stream.ndjson", "/api/chat", { model: "tiny", messages: HELLO, options: OPTIONS }],
    ] as const;
    for (const [file, path, body] of asks) {
      const answer = await box.call(path, { body });
      assert.equal(answer.type, "application/x-ndjson");
      const got = frames(answer.text);
      const want = frames(recorded(version, file));
      assert.equal(got.length, 6);
      assert.deepEqual(shapeOf(got[0]), shapeOf(want[0]), file);
      assert.deepEqual(shapeOf(got.at(-1)), shapeOf(want.at(-1)), file);
    }
  });

  Deno.test(`${version}: who may ask, by Host and Origin`, async () => {
    await using box = openOllama(version);
    const status = async (headers: Record<string, string>, method = "GET", path = "/api/ps") => {
      const lines = Object.entries({ Host: `127.0.0.1:${box.server.port}`, ...headers, Connection: "close" });
      using conn = await Deno.connect({ hostname: "127.0.0.1", port: box.server.port });
      const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join("");
      await conn.write(new TextEncoder().encode(`${method} ${path} HTTP/1.1\r\n${head}\r\n`));
      const buffer = new Uint8Array(4_096);
      const count = await conn.read(buffer);
      const text = new TextDecoder().decode(buffer.subarray(0, count ?? 0));
      return { status: Number(text.slice(9, 12)), text };
    };
    const allowed = [{}, { Origin: "http://localhost:3000" }, { Origin: "app://x" }, { Host: "box.local" }, {
      Host: "localhost:1",
    }];
    for (const headers of allowed) assert.equal((await status(headers)).status, 200, JSON.stringify(headers));
    for (const headers of [{ Origin: "https://evil.example" }, { Host: "evil.example" }]) {
      const refused = await status(headers);
      assert.equal(refused.status, 403);
      assert.ok(refused.text.endsWith("\r\n\r\n"), "no body");
    }
    assert.match(
      (await status({ Origin: "http://localhost:3000" })).text,
      /Access-Control-Allow-Origin: http:\/\/localhost:3000/,
    );
    const preflight = { "Access-Control-Request-Method": "POST" };
    assert.equal(
      (await status({ Origin: "http://localhost:3000", ...preflight }, "OPTIONS", "/api/generate")).status,
      204,
    );
    assert.equal(
      (await status({ Origin: "https://evil.example", ...preflight }, "OPTIONS", "/api/generate")).status,
      403,
    );
    assert.equal((await status({}, "HEAD", "/api/tags")).status, 200);
    assert.equal((await status({}, "HEAD")).status, 405);
  });
}

Deno.test("keep_alive is read as the server reads it", () => {
  const ms = (value: unknown) => {
    const parsed = parseKeepAlive(value);
    return parsed.kind === "given" ? parsed.ms : parsed.kind;
  };
  const table: readonly (readonly [unknown, number | string])[] = [
    [undefined, "absent"],
    [null, "absent"],
    [0, 0],
    [1.5, 1_500],
    [-1, Infinity],
    ["0", 0],
    ["0s", 0],
    ["10m", 600_000],
    ["1h30m", 5_400_000],
    ["1.5s", 1_500],
    ["250ms", 250],
    ["-1s", Infinity],
    ["300", "invalid"],
    ["-1", "invalid"],
    ["", "invalid"],
    ["forever", "invalid"],
    [true, "invalid"],
    [{}, "invalid"],
  ];
  for (const [value, expected] of table) assert.equal(ms(value), expected, JSON.stringify(value));
});

Deno.test("names have one shortest form, and what can't be one is refused", () => {
  const table = [
    ["tiny", "tiny:latest"],
    ["library/tiny:v1", "tiny:v1"],
    ["registry.ollama.ai/library/tiny:latest", "tiny:latest"],
    ["REGISTRY.OLLAMA.AI/LIBRARY/tiny", "tiny:latest"],
    ["Library/tiny", "tiny:latest"],
    ["ns/tiny", "ns/tiny:latest"],
    ["hf.co/ns/tiny:Q4_K_M", "hf.co/ns/tiny:Q4_K_M"],
    ["a b/c:::d", null],
    ["", null],
    ["a/b/c/d", null],
  ] as const;
  for (const [name, expected] of table) assert.equal(parseName(name), expected, name);
});
