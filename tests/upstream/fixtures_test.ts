import assert from "node:assert/strict";
import { errorText, InBandError } from "../../lib/upstream/error_text.ts";
import {
  parseComfyFrame,
  parseHistory,
  parseModelNames,
  parseQueue,
  parseStats,
} from "../../lib/upstream/comfy_parse.ts";
import { parseRecord } from "../../lib/upstream/json_fields.ts";
import {
  parseEmbed,
  parseGeneration,
  parsePs,
  parseRunnerHealth,
  parseRunnerSlots,
  parseTags,
  parseVersion,
  parseWeightBlobs,
} from "../../lib/upstream/ollama_parse.ts";
import { recorded, recordedExchanges, recordedFiles, recordedSocket } from "./recorded.ts";

type Check = (text: string, path: string) => void;

const isBlobs: Check = (text) => {
  const blobs = parseWeightBlobs(text);
  assert.equal(blobs.length, 1);
  assert.match(blobs[0] ?? "", /^sha256-[0-9a-f]{64}$/);
};
const isLoaded = (reason: string): Check => (text) => {
  const generation = parseGeneration(text);
  assert.deepEqual([generation.isDone, generation.doneReason, generation.text], [true, reason, ""]);
  assert.equal(generation.loadDurationMs, null, "an empty prompt's reply has no durations");
};
const isGenerated: Check = (text) => {
  const generation = parseGeneration(text);
  assert.equal(generation.isDone, true);
  assert.ok((generation.loadDurationMs ?? 0) > 0);
  assert.ok((generation.totalDurationMs ?? 0) >= (generation.loadDurationMs ?? 0));
  assert.ok((generation.tokens ?? 0) >= 1);
};
const isInBandError: Check = (text) => assert.throws(() => parseGeneration(text), InBandError);
const isError: Check = (text, path) => {
  const message = errorText(text);
  assert.ok(message !== null && !message.startsWith("{"), `${path}: ${message}`);
};
/** Answers of routes that nobody here asks; the gate passes them through as they are. */
const isForeignJson: Check = (text) => void parseRecord(text);
const isEventStream: Check = (text) => assert.match(text, /^(event|data): /m);
const isPlain: Check = (text) => assert.doesNotMatch(text, /^\{/);

/** First match wins; a file that none knows fails the test. */
const OLLAMA: readonly (readonly [RegExp, Check])[] = [
  [/\/version\.json$/, (text) => assert.match(parseVersion(text), /^0\.\d+\.\d+$/)],
  [/\/(ps-.*|cors-get-ok|host-local|host-empty)\.json$/, (text) => void parsePs(text)],
  [/\/tags(-empty)?\.json$/, (text) => void parseTags(text)],
  [/\/show-.*\.json$/, isBlobs],
  [/\/(generate|chat)-unload.*\.json$/, isLoaded("unload")],
  [/\/alias-unload\.json$/, isLoaded("unload")],
  [
    /\/(generate-load.*|generate-noka|chat-load.*|alias-load2?|case-load|full-name-load|load-big-numctx)\.json$/,
    isLoaded("load"),
  ],
  [/\/err-unknown-option\.json$/, isLoaded("load")],
  [/\/(generate-\dtok.*|generate-prompt-ka0|chat-\dtok.*)\.(json|ndjson)$/, isGenerated],
  [/\/generate-runner-killed-stream\.ndjson$/, isInBandError],
  [/\/generate-runner-killed-nostream\.json$/, isError],
  [/\/v0\.33\.0\/embed-on-llama\.json$/, isError],
  [/\/embed-(empty|emptyarr|noinput)\.json$/, (text) => assert.equal(parseEmbed(text).loadDurationMs, null)],
  [/\/embed(-.*)?\.json$/, (text) => assert.ok((parseEmbed(text).loadDurationMs ?? 0) > 0)],
  [/\/runner-health-.*\.json$/, (text) => assert.equal(parseRunnerHealth(text), null, "ready says nothing of busy")],
  [/\/runner-slots-idle\.json$/, (text) => assert.equal(parseRunnerSlots(text).activity, "idle")],
  [
    /\/runner-slots-busy\.json$/,
    (text) => assert.deepEqual(parseRunnerSlots(text), { activity: "busy", tokensLeft: 47 }),
  ],
  [/\/err-.*\.json$/, isError],
  [/\/v1-chat-nomsgs\.json$/, isError],
  [/\/v1-.*\.ndjson$/, isEventStream],
  [/\/(v1-.*|embeddings-legacy|manifest-.*|config-.*|runner-props-idle)\.json$/, isForeignJson],
  [/\.txt$/, isPlain],
  [/\/raw-generate-stream\.http$/, (text) => assert.match(text, /^HTTP\/1\.1 200 OK\r?\n/)],
];

const isJson: Check = (text) => void JSON.parse(text);

const COMFY: readonly (readonly [RegExp, Check])[] = [
  [/\/http-origin_cases\.json$/, isJson],
  [/\/http-[a-z_]+\.json$/, (_text, path) => recordedExchanges(path.replace("comfyui/", "")).forEach(checkExchange)],
  [/\/ws\/[a-z0-9_]+\.jsonl$/, (_text, path) => checkSocket(path.replace(/^comfyui\/ws\/|\.jsonl$/g, ""))],
  [/\/(free_timing|measurements|model_inputs)\.json$/, isJson],
];

const checkExchange = (
  { request: { method, path }, response: { status, text } }: {
    request: { method: string; path: string };
    response: { status: number; text: string };
  },
  name: string,
) => {
  if (status >= 400) return void errorText(text);
  if (method !== "GET") return;
  if (path === "/queue") return void parseQueue(text);
  if (path === "/system_stats") return assert.equal(parseStats(text).version, "0.3.64");
  if (path.startsWith("/history")) return void parseHistory(text);
  if (/^\/models/.test(path)) return void parseModelNames(text);
  const isKnown = /^\/(prompt|embeddings|features|object_info|view|api|$)/.test(path);
  assert.ok(isKnown, `${name}: GET ${path} is a route that no check knows`);
};

function checkSocket(name: string): void {
  for (const { frame } of recordedSocket(name)) {
    if (frame === undefined) continue;
    const parsed = parseComfyFrame(JSON.stringify(frame));
    assert.notEqual(parsed, null);
    const type = String(Object(frame).type);
    const isStatus = type === "status";
    assert.equal(parsed?.kind === "status", isStatus);
    if (type.startsWith("progress")) assert.equal(parsed?.kind, "progress");
  }
}

for (const [folder, checks] of [["ollama", OLLAMA], ["comfyui", COMFY]] as const) {
  Deno.test(`every recorded ${folder} body is read as what it is`, () => {
    const files = recordedFiles(folder).filter((path) => !path.endsWith("/README.md"));
    assert.ok(files.length > 30, "the fixtures are there");
    for (const path of files) {
      const check = checks.find(([pattern]) => pattern.test(path))?.[1];
      assert.ok(check, `${path} is a recording that no check knows: add one`);
      try {
        check(recorded(path), path);
      } catch (cause) {
        throw new Error(`Cannot read ${path}`, { cause });
      }
    }
  });
}

Deno.test("a model's blobs are the weight layers of its manifest", () => {
  for (const version of ["v0.24.0", "v0.33.0"]) {
    for (const [show, manifest] of [["show-llama", "manifest-tiny"], ["show-embed", "manifest-embedder"]]) {
      const { layers } = JSON.parse(recorded(`ollama/${version}/${manifest}.json`));
      const weights = layers.filter((layer: { mediaType: string }) => layer.mediaType.endsWith("image.model"))
        .map((layer: { digest: string }) => layer.digest.replace(":", "-"));
      assert.deepEqual(parseWeightBlobs(recorded(`ollama/${version}/${show}.json`)), weights);
    }
  }
});
