import assert from "node:assert/strict";
import { ConfigSchema } from "../../lib/config/schema.ts";
import { openDoors } from "../../lib/gate_doors.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Admission } from "../../lib/model/admission.ts";
import type { Log } from "../../lib/model/ports.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { requestText, Upstream, Wire } from "./gate_scene.ts";
import { inTime } from "./in_time.ts";

const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };
const nobody: Admission = { offer: () => Promise.resolve({ kind: "lapsed" }) };
const ground = { ollamaUrl: "http://127.0.0.1:1", comfyUrl: "http://127.0.0.1:2" };

function open(gate: Record<string, unknown>) {
  const config = ConfigSchema.parse({ gate }).gate;
  return openDoors({ config, ground, admission: nobody, clock: new LabClock(), log: silent });
}

Deno.test("a gate that wasn't asked for opens nothing", async () => {
  const doors = await open({});
  assert.deepEqual([doors.urls, doors.problems], [{ ollama: null, comfyui: null }, []]);
  await doors.close(AbortSignal.abort());
});

Deno.test("a port that is taken costs that side alone, and is told of", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const doors = await open({ enabled: true, ollama: `127.0.0.1:${taken.addr.port}`, comfyui: "127.0.0.1:0" });
  assert.equal(doors.urls.ollama, null);
  assert.match(doors.urls.comfyui ?? "", /^http:\/\/127\.0\.0\.1:\d+$/);
  assert.deepEqual(doors.problems.map((problem) => /port is taken/.test(problem)), [true]);
  await doors.close(AbortSignal.abort());
});

Deno.test("a side may stand on a unix socket, alone or beside its port", async () => {
  const dir = await Deno.makeTempDir();
  const doors = await open({ enabled: true, ollama: "", comfyui: "127.0.0.1:0", ollama_socket: `${dir}/ollama.sock` });
  assert.equal(doors.urls.ollama, `unix:${dir}/ollama.sock`);
  assert.match(doors.urls.comfyui ?? "", /^http:/);
  (await Deno.connect({ transport: "unix", path: `${dir}/ollama.sock` })).close();
  await doors.close(AbortSignal.abort());
  await Deno.remove(dir, { recursive: true });
});

Deno.test("an address that others could reach is refused by the configuration", () => {
  for (const ollama of ["0.0.0.0:11435", "192.168.1.4:11435", "11435", "127.0.0.1"]) {
    assert.equal(ConfigSchema.safeParse({ gate: { ollama } }).success, false, ollama);
  }
});

Deno.test("what runs when the service stops may end, as long as is configured or until somebody is in a hurry", async () => {
  const clock = new LabClock();
  for (const how of ["the time is over", "a second signal"] as const) {
    await using upstream = new Upstream();
    const config =
      ConfigSchema.parse({ gate: { enabled: true, ollama: "127.0.0.1:0", comfyui: "", drain_s: 40 } }).gate;
    const urls = { ollamaUrl: upstream.url, comfyUrl: "http://127.0.0.1:2" };
    const doors = await openDoors({ config, ground: urls, admission: nobody, clock, log: silent });
    const client = new Wire(await Deno.connect({ hostname: "127.0.0.1", port: portOf(doors.urls.ollama ?? "") }));
    await client.send(requestText("GET /api/tags"));
    await (await upstream.wire(0)).see("GET /api/tags");
    const hurry = new AbortController();
    const closing = doors.close(hurry.signal);
    await clock.advance(39_000);
    assert.equal(client.end, "open");
    if (how === "the time is over") await clock.advance(1_000);
    else hurry.abort();
    await inTime(closing, () => "for the gate to close");
    assert.equal(await client.ended(), "");
    client.close();
  }
});
