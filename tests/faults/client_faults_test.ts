/** Clients that load beside us: refused, or back before they may; and a runner that never goes. */
import assert from "node:assert/strict";
import type { HistoryItem } from "../../lib/model/history.ts";
import { DEFAULT_POLICY } from "../../lib/model/policy.ts";
import { BIG, call, gib, MIDDLE, openScene, type Scene, SMALL } from "./scene.ts";

const OTHER = "gemma3:12b";
const SDXL = "sd_xl_base_1.0.safetensors";

/** ComfyUI sits idle on a checkpoint that nobody uses any more. */
async function idleCheckpoint(scene: Scene): Promise<void> {
  await scene.prompt({ checkpoint: SDXL });
  await scene.idle();
  await scene.pass(3_000);
}

const decided = (decision: string) => ({ fields }: HistoryItem) => fields["decision"] === decision;

Deno.test("loads that other clients are refused", async (test) => {
  await using scene = await openScene({ policy: { purge: { ...DEFAULT_POLICY.purge, idleMs: null } } });
  const { box } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });
  const purges = (sinceMs: number) => scene.since(sinceMs).filter(({ kind }) => kind === "purge");
  const tries = (model: string) => scene.settle(scene.beginLoad(model).then(() => true, () => false));

  await situation("its runner dies unlisted beside an idle ComfyUI: reclaimed, and the next try fits", async () => {
    await idleCheckpoint(scene);
    box.ollama.quirks.refusesWhenShort = true;
    const sinceMs = scene.clock.monotonicMs();
    assert.equal(await tries(BIG), false);
    const { item } = await scene.said(decided("refused_elsewhere"), { sinceMs });
    assert.deepEqual(item.fields["models"], [BIG]);
    const purge = await scene.said(({ kind }) => kind === "purge", { sinceMs });
    assert.deepEqual([purge.item.fields["cause"], purge.item.fields["outcome"]], ["refused_elsewhere", "released"]);
    assert.equal(await tries(BIG), true);
    await scene.pass(3_000);
    assert.equal(scene.since(sinceMs).filter(decided("refused_elsewhere")).length, 1);
  });

  await situation("ComfyUI executes: it isn't touched, and that is said", async () => {
    await scene.prompt({ ms: 9_000, gib: 9 });
    await scene.pass(1_500);
    box.ollama.quirks.refusesWhenShort = true;
    const sinceMs = scene.clock.monotonicMs();
    assert.equal(await tries(OTHER), false);
    const { item } = await scene.said(decided("refused_elsewhere"), { sinceMs });
    assert.match(String(item.fields["message"]), /executing and isn't touched/);
    assert.deepEqual(purges(sinceMs), []);
  });

  await situation("a discovery child comes and goes: no refusal", async () => {
    await idleCheckpoint(scene);
    const sinceMs = scene.clock.monotonicMs();
    const server = box.processes.get(box.ollama.pid ?? 0);
    assert.ok(server);
    const { pid } = box.processes.spawn({
      ...server,
      parentPid: server.pid,
      args: [server.exe, "runner", "--port", "1"],
    });
    await scene.pass(600);
    box.processes.exit(pid);
    await scene.pass(2_100);
    assert.deepEqual(scene.since(sinceMs).filter(decided("refused_elsewhere")), []);
  });

  await situation("a client hangs up while its load runs, and there was room: no refusal", async () => {
    const sinceMs = scene.clock.monotonicMs();
    const controller = new AbortController();
    const body = JSON.stringify({ model: MIDDLE, stream: false });
    const left = fetch(`${box.ollama.url}/api/generate`, { method: "POST", body, signal: controller.signal })
      .then((response) => response.text(), () => "");
    await scene.pass(700);
    assert.equal(box.ollama.runners.length, 1);
    controller.abort();
    await scene.settle(left);
    await scene.pass(2_100);
    assert.equal(box.ollama.runners.length, 0);
    assert.deepEqual(scene.since(sinceMs).filter(decided("refused_elsewhere")), []);
  });

  await situation("Ollama is stopped while it loads: its child's end is no refusal", async () => {
    await idleCheckpoint(scene);
    const sinceMs = scene.clock.monotonicMs();
    const loading = scene.beginLoad(BIG).catch(() => {});
    await scene.pass(700);
    await scene.settle(box.ollama.kill("SIGTERM"));
    await scene.settle(loading);
    await scene.pass(2_100);
    await scene.settle(box.ollama.start());
    await scene.pass(2_100);
    assert.deepEqual(scene.since(sinceMs).filter(decided("refused_elsewhere")), []);
    assert.deepEqual(purges(sinceMs), []);
  });
});

Deno.test("a model that creeps back before ComfyUI has its memory", async (test) => {
  await using scene = await openScene();
  const { box } = scene;
  const situation = (name: string, play: () => Promise<void>) =>
    test.step(name, async () => {
      await play().finally(() => scene.rest());
    });
  const yields = (sinceMs: number) => scene.since(sinceMs).filter(({ kind }) => kind === "yield" || kind === "fault");

  await situation("seen within one sample, and asked to go again two seconds later", async () => {
    await scene.load(MIDDLE);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ ms: 12_000 });
    await scene.handOff(sinceMs);
    const backMs = scene.clock.monotonicMs();
    const loading = scene.beginLoad(MIDDLE);
    const { item, atMs } = await scene.said(decided("crept_back"), { sinceMs: backMs });
    assert.ok(atMs - backMs <= 1_000, `seen after ${atMs - backMs} ms`);
    assert.equal(item.fields["insists"], MIDDLE);
    await scene.settle(loading);
    const again = await scene.said(({ fields }) => fields["cause"] === "crept_back" && "outcome" in fields, {
      sinceMs: backMs,
    });
    assert.ok(again.atMs - atMs >= 2_000);
    await scene.pass(2_000);
    assert.equal(box.ollama.runners.length, 0);
  });

  await situation("its client insists: asked ever more seldom, and named", async () => {
    await scene.load(SMALL);
    const sinceMs = scene.clock.monotonicMs();
    await scene.prompt({ ms: 26_000 });
    let isOver = false;
    const insisting = (async () => {
      while (!isOver) {
        await scene.beginLoad(SMALL).catch(() => {});
        await scene.clock.sleep(1_000);
      }
    })();
    await scene.pass(22_000);
    const { insisters } = scene.house.services.arbitration.view();
    isOver = true;
    await scene.settle(insisting);
    const asked = yields(sinceMs).filter(({ fields }) => fields["cause"] === "crept_back");
    assert.equal(asked.length, 2, "after 2 s, and after 8 s more");
    assert.equal(insisters?.at(-1)?.model, SMALL);
  });

  await situation(
    "ComfyUI takes its memory first: what is loaded beside it then is left to the spill's rule",
    async () => {
      await scene.load(MIDDLE);
      const sinceMs = scene.clock.monotonicMs();
      await scene.prompt({ ms: 4_000, gib: 3 });
      await scene.handOff(sinceMs);
      await scene.pass(1_100);
      await scene.load(SMALL);
      await scene.pass(2_100);
      assert.deepEqual(scene.since(sinceMs).filter(decided("crept_back")), []);
    },
  );
});

Deno.test("a stuck runner, to the ladder's last step", async (test) => {
  await using scene = await openScene({ policy: { mayEndRunners: true } });
  const { box, house } = scene;
  const { arbitration } = house.services;
  const end = (process: { pid: number; startTime: number }) =>
    scene.settle(arbitration.endRunner({ process, operation: "end-runner" }, call()));
  await scene.load(MIDDLE);
  const { pid, heldBytes } = scene.runnerOf(MIDDLE);
  const startTime = box.processes.get(pid)?.startTime ?? 0;

  await test.step("not yet reported: refused", async () => {
    assert.equal((await scene.refusal(end({ pid, startTime }))).code, "not_found");
  });
  await test.step("the unload sticks: a fault that names pid, start time and the words that end it", async () => {
    box.ollama.quirks.releaseMs = 12_000;
    const result = await scene.yieldVram();
    assert.equal(result.outcome, "fault");
    assert.match(result.message, new RegExp(`hyperswap runner end ${pid} ${startTime}`));
    assert.deepEqual(arbitration.view().stuck?.map((entry) => [entry.pid, entry.startTime]), [[pid, startTime]]);
  });
  await test.step("another start time: nothing is ended", async () => {
    assert.equal((await scene.refusal(end({ pid, startTime: startTime + 1 }))).code, "not_found");
    assert.equal(box.vram.heldBytes(pid), heldBytes);
  });
  await test.step("ended, released by the driver's word, and Ollama's server goes on", async () => {
    const server = box.ollama.pid;
    const result = await end({ pid, startTime });
    assert.deepEqual([result.outcome, result.freedBytes], ["released", heldBytes]);
    scene.expectReleased([pid], scene.clock.monotonicMs());
    box.ollama.quirks.releaseMs = null;
    assert.equal(box.ollama.pid, server);
    await scene.pass(2_100);
    assert.deepEqual(arbitration.view().stuck, []);
    assert.equal((await scene.refusal(end({ pid, startTime }))).code, "not_found");
    assert.equal((await scene.switchTo(SMALL)).targetModel, SMALL);
    assert.ok((gib(heldBytes) ?? 0) > 4);
  });
  // The lab's server still waits for that one to end, and answers nobody's `/api/ps` meanwhile.
  await scene.pass(6_000);
});
