import assert from "node:assert/strict";
import { classifyOllamaFailure, isOutOfMemory } from "../../lib/upstream/ollama_failures.ts";
import { UpstreamError, type UpstreamErrorDetails } from "../../lib/upstream/upstream_error.ts";
import { OLLAMA_VERSIONS, recorded } from "./recorded.ts";

Deno.test("out of memory, in the words of every generation and backend", () => {
  for (
    const text of [
      "llama runner process has terminated: cudaMalloc failed: out of memory\nerror loading model: unable to allocate CUDA0 buffer\npanic: unable to load model: /m/blobs/sha256-ab",
      "llama-server reported out-of-memory during startup: …",
      "model requires more system memory (61.1 GiB) than is available (19.4 GiB)",
      "model requires 12.1 GiB but only 8.0 GiB are available (after overhead)",
      "ErrorOutOfDeviceMemory: vk::Device::allocateMemory",
      "hipMalloc failed",
      "memory layout cannot be allocated with num_gpu = 99",
      "unable to load full model on GPU",
      "CUDA error: Out Of Memory",
    ]
  ) assert.ok(isOutOfMemory(text), text);
});

Deno.test("other failures are not out of memory", () => {
  for (
    const text of [
      "model 'nope' not found",
      "llama runner process has terminated with exit code -1",
      "llama-server process has terminated: signal: killed",
      "server busy, please try again.  maximum pending requests exceeded",
      "an error was encountered while running the model: unexpected EOF",
      "",
    ]
  ) assert.ok(!isOutOfMemory(text), text);
});

function failed(details: Partial<UpstreamErrorDetails>): UpstreamError {
  return new UpstreamError("load tiny", { url: "http://127.0.0.1:11434", kind: "http", reason: "r", ...details });
}

for (const version of OLLAMA_VERSIONS) {
  Deno.test(`recorded failures of ${version} are told apart`, () => {
    const recordedAs = (name: string, status: number) =>
      classifyOllamaFailure(failed({ status, body: recorded(`ollama/${version}/${name}.json`) }));
    assert.equal(recordedAs("err-cannot-fit", 500), "out_of_memory");
    assert.equal(recordedAs("err-generate-unknown", 404), "unknown_model");
    assert.equal(recordedAs("err-generate-load-on-embed", 400), "embedding_only");
    assert.equal(recordedAs("err-503-queue", 503), "queue_full");
    assert.equal(recordedAs("err-runner-killed-during-load", 500), "runner_died");
    assert.equal(recordedAs("generate-runner-killed-nostream", 500), "runner_died");
    assert.equal(recordedAs("err-keepalive-unit", 400), "other");
  });
}

Deno.test("memory is also refused with 400 while embedding, and inside a 200", () => {
  const body = '{"error":"cudaMalloc failed: out of memory"}';
  assert.equal(classifyOllamaFailure(failed({ status: 400, body })), "out_of_memory");
  const inBand = failed({ kind: "in_band", status: 200, body: "cudaMalloc failed: out of memory" });
  assert.equal(classifyOllamaFailure(inBand), "out_of_memory");
});

Deno.test("no answer is no verdict on memory, and a bug is none on Ollama", () => {
  assert.equal(classifyOllamaFailure(failed({ kind: "refused", reason: "connection refused" })), "no_answer");
  assert.equal(classifyOllamaFailure(failed({ kind: "timeout" })), "no_answer");
  assert.equal(classifyOllamaFailure(new TypeError("out of memory")), "other");
});
