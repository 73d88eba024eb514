import assert from "node:assert/strict";
import { baseName, isOllamaRunner, option, parseRunnerArgs } from "../../lib/sample/runner_args.ts";
import { ARGS, BLOB } from "./fake_proc.ts";

for (
  const [name, args, expected] of [
    ["ollama", ARGS.ollamaRunner, { generation: "ollama-runner", blob: BLOB, modelName: null, port: 40001 }],
    ["ollama", ARGS.newEngine, { generation: "ollama-runner", blob: BLOB, modelName: null, port: 40002 }],
    ["ollama", ARGS.mlx, { generation: "mlx", blob: null, modelName: "qwen3:27b", port: 40003 }],
    ["llama-server", ARGS.llamaServer, {
      generation: "llama-server",
      blob: BLOB,
      modelName: null,
      port: 40004,
      parallel: 1,
    }],
    ["ollama_llama_se", ARGS.oldServer, {
      generation: "ollama_llama_server",
      blob: BLOB,
      modelName: null,
      port: 40006,
    }],
    ["llama-server", ARGS.discovery, null],
    ["llama-server", ARGS.listDevices, null],
    ["ollama", ARGS.ollamaServe, null],
    ["ollama", [], null],
    ["python3", ["python3", "train.py", "--model", `/x/${BLOB}`], null],
  ] as const
) {
  Deno.test(`the command line "${args.slice(0, 3).join(" ")} …" is ${expected?.generation ?? "no runner"}`, () => {
    assert.deepEqual(parseRunnerArgs({ name, args }), expected);
  });
}

Deno.test("options are read in both forms, and a port must be one", () => {
  assert.equal(option(["x", "--port=5", "--model", "m"], "--port"), "5");
  assert.equal(option(["x", "--model"], "--model"), null);
  const portOf = (port: string) =>
    parseRunnerArgs({ name: "ollama", args: ["ollama", "runner", "--model", "m", "--port", port] })?.port;
  assert.deepEqual(["0", "70000", "x", "8"].map(portOf), [null, null, null, 8]);
  assert.equal(
    parseRunnerArgs({ name: "llama-server", args: ["llama-server", "--model", "/home/ann/model.gguf"] })?.blob,
    null,
  );
});

Deno.test("a person's llama-server is not taken for Ollama's", () => {
  assert.equal(isOllamaRunner({ name: "llama-server", args: ARGS.llamaServer }), true);
  assert.equal(isOllamaRunner({ name: "llama-server", args: ["llama-server", "--model", `/m/blobs/${BLOB}`] }), false);
  assert.equal(
    isOllamaRunner({ name: "llama-server", args: ["llama-server", "--model", "/m/a.gguf", "--offline"] }),
    false,
  );
  assert.equal(isOllamaRunner({ name: "ollama", args: ARGS.mlx }), true);
});

Deno.test("a replaced program's name is still its name", () => {
  assert.equal(baseName("/usr/local/bin/ollama (deleted)"), "ollama");
  assert.equal(baseName("ollama"), "ollama");
});
