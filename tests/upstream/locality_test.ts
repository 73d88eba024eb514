import assert from "node:assert/strict";
import { clientUrl, isRemoteUrl, portOf } from "../../lib/upstream/locality.ts";

for (
  const url of [
    "http://127.0.0.1:11434",
    "http://127.1:11434",
    "http://localhost:11434",
    "http://LOCALHOST",
    "http://ollama.localhost:11434",
    "http://localhost.:11434",
    "http://[::1]:11434",
    "http://[::ffff:127.0.0.1]:11434",
    "http://0.0.0.0:11434",
    "http://[::]:11434",
  ]
) {
  Deno.test(`${url} is this machine`, () => assert.equal(isRemoteUrl(url), false));
}

for (
  const url of [
    "http://192.168.1.20:11434",
    "http://gpu-box:11434",
    "http://localhost.example.org",
    "http://127.0.0.1.example.org",
    "http://[fe80::1]:11434",
  ]
) {
  Deno.test(`${url} is another machine`, () => assert.equal(isRemoteUrl(url), true));
}

Deno.test("this machine's own names and addresses are local once they are told", () => {
  const localHosts = ["GPU-Box", "192.168.1.20", "fe80::1"];
  assert.equal(isRemoteUrl("http://gpu-box:11434", localHosts), false);
  assert.equal(isRemoteUrl("http://192.168.1.20", localHosts), false);
  assert.equal(isRemoteUrl("http://[fe80::1]:11434", localHosts), false);
  assert.equal(isRemoteUrl("http://192.168.1.21", localHosts), true);
});

Deno.test("a listen-anywhere address is called by loopback, and a trailing slash is dropped", () => {
  assert.equal(clientUrl("http://0.0.0.0:11434/"), "http://127.0.0.1:11434");
  assert.equal(clientUrl("http://[::]:11434"), "http://[::1]:11434");
  assert.equal(clientUrl("https://box/ollama/"), "https://box/ollama");
});

Deno.test("a port is told, or the scheme's own", () => {
  assert.deepEqual(["http://a:8188", "http://a", "https://a", "ws://a", "wss://a"].map(portOf), [
    8188,
    80,
    443,
    80,
    443,
  ]);
});
