import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { BlobCache } from "../../lib/sample/blob_cache.ts";
import { watchOllama } from "../../lib/sample/ollama_watch.ts";
import { FakeOllama, installedModel, residentModel } from "./fake_ollama.ts";

async function watchFake(prepare: (server: FakeOllama) => void = () => {}) {
  const clock = new LabClock();
  const server = new FakeOllama();
  prepare(server);
  const watch = watchOllama({ api: server, clock });
  await clock.settle();
  return { clock, server, watch };
}

Deno.test("what is resident is read each second, what is installed every 10 s", async () => {
  const { clock, server, watch } = await watchFake((fake) => fake.installed = [installedModel("tiny:latest")]);
  const state = watch.state();
  assert.deepEqual([state.online, state.reason, state.version], [true, null, "0.24.0"]);
  assert.deepEqual(state.installed.map(({ name }) => name), ["tiny:latest"]);
  await clock.advance(1_000);
  const [ps, tags] = [server.callsOf("ps"), server.callsOf("tags")];
  server.resident = [residentModel("tiny:latest")];
  await clock.advance(1_000);
  assert.deepEqual(watch.state().resident.map(({ name }) => name), ["tiny:latest"]);
  await clock.advance(19_000);
  assert.equal(server.callsOf("ps") - ps, 20);
  assert.equal(server.callsOf("tags") - tags, 2);
  watch.stop();
});

Deno.test("a model that wasn't known makes the list be read again at once", async () => {
  const { clock, server, watch } = await watchFake((fake) => fake.installed = [installedModel("tiny:latest")]);
  await clock.advance(2_000);
  server.installed = [...server.installed, installedModel("new:latest")];
  server.resident = [residentModel("new:latest")];
  await clock.advance(1_300);
  assert.deepEqual(watch.state().installed.map(({ name }) => name), ["tiny:latest", "new:latest"]);
  watch.stop();
});

Deno.test("blobs are asked once a digest, one model at a time, what is resident first", async () => {
  const names = ["a:latest", "b:latest", "c:latest", "d:latest"];
  const { clock, server, watch } = await watchFake((fake) => {
    fake.installed = [
      ...names.map((name) => installedModel(name)),
      installedModel("alias:v1", { digest: "digest-a:latest" }),
      installedModel("cloudy:cloud", { isRemote: true }),
    ];
    fake.resident = [residentModel("c:latest")];
  });
  await clock.advance(300);
  assert.deepEqual(watch.state().blobsByDigest, { "digest-c:latest": ["sha256-of-c:latest"] });
  const before = watch.state().blobsByDigest;
  assert.equal(watch.state().blobsByDigest, before, "the same object until something is learned");
  await clock.advance(30_000);
  assert.deepEqual(server.calls.filter((call) => call.startsWith("weightBlobs")), [
    "weightBlobs c:latest",
    "weightBlobs a:latest",
    "weightBlobs b:latest",
    "weightBlobs d:latest",
  ]);
  assert.equal(Object.keys(watch.state().blobsByDigest).length, 4);
  watch.stop();
});

Deno.test("what the store once told of a digest is kept: a model that is deleted while it is loaded is still to be told", () => {
  let store: Readonly<Record<string, readonly string[]>> = { "digest-a": ["sha256-a"] };
  const cache = new BlobCache(new FakeOllama(), { clock: new LabClock(), storeBlobs: () => store });
  assert.deepEqual(cache.byDigest, { "digest-a": ["sha256-a"] });
  store = { "digest-b": ["sha256-b"] };
  assert.deepEqual(cache.byDigest, { "digest-a": ["sha256-a"], "digest-b": ["sha256-b"] });
});

Deno.test("blobs that can't be told now are asked again later, those of a deleted model never", async () => {
  const { clock, server, watch } = await watchFake((fake) => {
    fake.installed = [installedModel("a:latest")];
    fake.failures.set("weightBlobs", { kind: "timeout" });
  });
  await clock.advance(29_000);
  assert.equal(server.callsOf("weightBlobs"), 1, "not every second");
  server.failures.set("weightBlobs", { kind: "http", status: 404 });
  server.installed = [];
  await clock.advance(3_000);
  assert.equal(server.callsOf("weightBlobs"), 2);
  server.failures.clear();
  await clock.advance(120_000);
  assert.equal(server.callsOf("weightBlobs"), 2);
  server.installed = [installedModel("a:latest")];
  await clock.advance(12_000);
  assert.deepEqual(watch.state().blobsByDigest, { "digest-a:latest": ["sha256-of-a:latest"] });
  watch.stop();
});

Deno.test("a stalled listing keeps the rows and says how old they are, while the server answers the rest", async () => {
  const { clock, server, watch } = await watchFake((fake) => fake.resident = [residentModel("tiny:latest")]);
  assert.equal(watch.staleness(), null);
  server.failures.set("ps", { kind: "timeout" });
  await clock.advance(30_000);
  const state = watch.state();
  assert.deepEqual([state.online, state.resident.length], [true, 1]);
  assert.deepEqual(watch.staleness(), { ageMs: 30_000, reason: "Cannot ask for ps: test says timeout" });
  assert.deepEqual([watch.report().ok, watch.report().lastError], [false, "Cannot ask for ps: test says timeout"]);
  server.failures.clear();
  await clock.advance(1_000);
  assert.deepEqual([watch.staleness(), watch.report().ok], [null, true]);
  watch.stop();
});

Deno.test("a server that answers nothing is gone after 5 s, not before", async () => {
  const { clock, server, watch } = await watchFake((fake) => fake.resident = [residentModel("tiny:latest")]);
  server.failures.set("ps", { kind: "timeout" });
  server.failures.set("version", { kind: "timeout" });
  await clock.advance(5_000);
  assert.deepEqual([watch.state().online, watch.state().resident.length], [true, 1]);
  await clock.advance(1_500);
  assert.deepEqual([watch.state().online, watch.state().resident.length], [false, 0]);
  assert.match(watch.remedy() ?? "", /accepts connections but says nothing/);
  watch.stop();
});

Deno.test("a refused connection is told at once, with the remedy; what is installed stays known", async () => {
  const { clock, server, watch } = await watchFake((fake) => {
    fake.resident = [residentModel("tiny:latest")];
    fake.installed = [installedModel("tiny:latest")];
  });
  for (const verb of ["ps", "version", "tags"] as const) server.failures.set(verb, { kind: "refused" });
  await clock.advance(1_000);
  const state = watch.state();
  assert.deepEqual([state.online, state.version, state.resident.length, state.installed.length], [false, null, 0, 1]);
  assert.equal(state.reason, "Cannot reach Ollama at http://127.0.0.1:11434: test says refused");
  assert.match(watch.remedy() ?? "", /^Start it \(systemctl start ollama\), or set ollama\.url/);
  assert.equal(watch.staleness(), null, "no rows are shown that could be old");
  server.failures.clear();
  server.versionText = "0.33.0";
  await clock.advance(1_300);
  assert.deepEqual([watch.state().online, watch.state().version, watch.remedy()], [true, "0.33.0", null]);
  watch.stop();
});

Deno.test("something else on the port is told apart from nothing", async () => {
  const { watch } = await watchFake((fake) => fake.failures.set("ps", { kind: "protocol", status: 200 }));
  assert.equal(watch.state().online, false);
  assert.match(watch.remedy() ?? "", /^Something else seems to listen there/);
  watch.stop();
});

Deno.test("before the first answer nothing is claimed", () => {
  const clock = new LabClock();
  const watch = watchOllama({ api: new FakeOllama(), clock });
  const state = watch.state();
  assert.deepEqual([state.online, state.version, state.resident.length], [false, null, 0]);
  assert.match(state.reason ?? "", /^Waiting for the first answer of Ollama/);
  watch.stop();
});

Deno.test("a refresh asks at once", async () => {
  const { clock, server, watch } = await watchFake();
  await clock.advance(500);
  const before = server.callsOf("ps");
  watch.refresh();
  assert.equal(server.callsOf("ps"), before + 1);
  watch.stop();
  await clock.advance(5_000);
  assert.equal(server.callsOf("ps"), before + 1);
});
