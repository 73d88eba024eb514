/**
 * The gate when HyperSwap can't decide, or mustn't: whoever comes passes, is told so, is counted and shown; and holding
 * works again afterwards. The whole house over a box, with real sockets on both sides of the gate.
 */
import assert from "node:assert/strict";
import { openGate } from "../../lib/gate/gate.ts";
import type { Log } from "../../lib/model/ports.ts";
import { DEFAULT_ACCESS } from "../../lib/show/access.ts";
import { openRest } from "../../lib/show/rest.ts";
import { MIDDLE, openScene, type Scene } from "./scene.ts";

const log: Log = { debug() {}, info() {}, warn() {}, error: (message, fields) => assert.fail(`${message} ${fields}`) };

/** What a client of the gate sees of how it passed. */
interface Marks {
  readonly gate: string | null;
  readonly reason: string | null;
  readonly wasHeld: boolean;
}

/** A gate before the scene's two servers, and the REST door that tells of it. */
async function openGated(scene: Scene) {
  const { box, house, clock } = scene;
  const doors = await openGate({
    ollama: { listen: "127.0.0.1:0", url: box.ollama.url },
    comfyui: { listen: "127.0.0.1:0", url: box.comfy.url },
    admission: house.admission,
    clock,
    log,
  });
  house.admission.opened({ urls: doors.urls, problems: [] });
  const report = (error: unknown) => assert.fail(String(error));
  const rest = openRest({ services: house.services, clock, report, access: () => DEFAULT_ACCESS, assets: new Map() });
  const get = async (path: string) => {
    const request = new Request(`http://localhost${path}`, { headers: { host: "localhost" } });
    const response = await scene.settle(rest.fetch(request, { transport: "unix" }));
    return await response.json();
  };
  const open = async (reason: string): Promise<number> => (await get("/api/arbitration")).gate_counts.open[reason] ?? 0;
  const held = async (): Promise<readonly { reason: string }[]> => (await get("/api/arbitration")).held;
  let seed = 0;
  const prompt = async (): Promise<Marks> => {
    const inputs = { steps: 1, step_ms: 50, vram_gb: 1, seed: seed += 1 };
    const body = JSON.stringify({ prompt: { "1": { class_type: "LabWork", inputs } } });
    const response = await fetch(`${doors.urls.comfyui}/prompt`, { method: "POST", body });
    assert.equal(response.status, 200, await response.text());
    return {
      gate: response.headers.get("x-hyperswap-gate"),
      reason: response.headers.get("x-hyperswap-reason"),
      wasHeld: Number(response.headers.get("x-hyperswap-held-ms")) > 0,
    };
  };
  /** Ollama has a model and ComfyUI is idle: a prompt that comes now has to be held. */
  const meet = async () => {
    await scene.load(MIDDLE);
    await scene.pass(1_100);
  };
  return {
    ...{ get, open, held, prompt, meet },
    async [Symbol.asyncDispose]() {
      house.admission.end();
      await scene.settle(doors.close(AbortSignal.abort()));
      await rest.close();
    },
  };
}

Deno.test("the gate stands open where HyperSwap can't decide or mustn't, and holds again afterwards", async (test) => {
  await using scene = await openScene();
  const { box, house } = scene;
  await using gated = await openGated(scene);

  /** Each begins where a prompt has to be held; what comes after a failed one would only repeat it. */
  let isBroken = false;
  const situation = async (name: string, play: () => Promise<void>) => {
    if (isBroken) return;
    isBroken = !await test.step(name, async () => {
      await gated.meet();
      await play().finally(() => scene.rest());
    });
  };

  for (
    const [what, reason, happen] of [
      [
        "HyperSwap is paused",
        "paused",
        () => house.services.arbitration.set({ mode: "paused", untilMs: null, keep: [] }),
      ],
      ["the driver hangs", "blind", () => box.table.wedge(true)],
    ] as const
  ) {
    await situation(`${what}: a prompt passes`, async () => {
      happen();
      await scene.pass(2_200);
      const before = await gated.open(reason);
      assert.deepEqual(await scene.settle(gated.prompt()), { gate: "open", reason, wasHeld: false });
      assert.equal(await gated.open(reason), before + 1);
      assert.deepEqual(await gated.held(), []);
      const check = (await gated.get("/api/health")).checks.find(({ name }: { name: string }) => name === "gate");
      assert.equal(check.state, "degraded");
      assert.match(check.finding, reason === "blind" ? /The card can't be read/ : /in mode paused/);
    });

    await situation(`${what} while a prompt is held: it is let go`, async () => {
      box.ollama.quirks.releaseMs = 6_000;
      const before = await gated.open(reason);
      const prompting = gated.prompt();
      await scene.pass(500);
      assert.match((await gated.held())[0]?.reason ?? "", /the driver hasn't Ollama's memory back yet/);
      happen();
      assert.deepEqual(await scene.settle(prompting), { gate: "open", reason, wasHeld: true });
      assert.equal(await gated.open(reason), before + 1);
      assert.deepEqual(await gated.held(), []);
    });
  }

  await situation("afterwards a prompt is held and let go on the driver's word, as if nothing had been", async () => {
    assert.deepEqual(await scene.settle(gated.prompt()), { gate: null, reason: "released", wasHeld: true });
  });
});
