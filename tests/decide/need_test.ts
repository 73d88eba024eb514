import assert from "node:assert/strict";
import { holdersOf } from "../../lib/decide/need.ts";
import type { AttributedProcess } from "../../lib/model/sample.ts";
import { Scene } from "./scene.ts";
import { gib } from "./stories.ts";

Deno.test("who holds the card: an interpreter is named with what it runs", () => {
  const scene = new Scene().holds(300, "unmanaged", gib(1), "python3.12");
  scene.sample();
  const { gpu } = scene.sampleNow();
  assert.ok(gpu.available);
  const label = (command: string | null) => {
    const named = (process: AttributedProcess) => process.pid === 300 ? { ...process, command } : process;
    const processes = gpu.breakdown.processes.map(named);
    const shares = holdersOf({ ...gpu, breakdown: { ...gpu.breakdown, processes } });
    return shares.find((share) => share.bucket === "unmanaged")?.who[0];
  };
  assert.equal(label("python3 -m stt_relay --device cuda"), "pid 300 python3.12 stt_relay 1 GB");
  assert.equal(label("python /opt/app/main.py --listen"), "pid 300 python3.12 main.py 1 GB");
  assert.equal(label("python3"), "pid 300 python3.12 1 GB");
  assert.equal(label(null), "pid 300 python3.12 1 GB");
});
