/** A prompt that does nothing any more, behind a server that answers. */
import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { card, gib } from "./stories.ts";

interface Second {
  readonly ticks?: number;
  readonly smPct?: number;
  readonly progress?: number | null;
}

/** A prompt runs; each second its process and the card do so much. */
function play(seconds: number, of: (second: number) => Second, queue = 3): Scene {
  const scene = new Scene().holds(200, "comfy", gib(4));
  scene.sample();
  scene.enqueue(queue);
  let ticks = 1_000;
  for (let second = 0; second < seconds; second++) {
    const { ticks: more = 0, smPct = 0, progress = null } = of(second);
    ticks += more;
    const given = card(scene.held, scene.residualBytes);
    scene.gpu = { ...given, reading: { ...given.reading, smPctByPid: smPct === 0 ? {} : { 200: smPct } } };
    const shown = progress === null ? null : { value: progress, max: 20 };
    scene.comfy = { ...scene.comfy, runningPromptId: "p1", serverCpuTicks: ticks, progress: shown };
    scene.run(1_000, { stepMs: 500 });
  }
  return scene;
}

function faults(scene: Scene) {
  return scene.all("record").filter(({ item }) => item.fields["what"] === "comfyui_worker");
}

Deno.test("a minute without computing or using the card: said once, with the remedy; nothing is done to it", () => {
  const scene = play(120, () => ({ ticks: 1 }));
  const [fault, ...more] = faults(scene);
  assert.deepEqual(more, []);
  assert.match(
    String(fault?.item.fields["message"]),
    /p1 has run for 6\d s .*2 waiting behind it.*worker may have died/,
  );
  assert.match(String(fault?.item.fields["remedy"]), /Interrupt it.*restart ComfyUI/);
  assert.equal(scene.all("freeComfy").length, 0);
});

Deno.test("a prompt that works isn't dead", async (test) => {
  const works: Readonly<Record<string, (second: number) => Second>> = {
    "it computes on the processor": () => ({ ticks: 60 }),
    "it uses the card": () => ({ smPct: 7 }),
    "its progress moves": (second) => ({ progress: second }),
    "it pauses for less than a minute": (second) => ({ ticks: second % 50 === 0 ? 90 : 0 }),
  };
  for (const [name, of] of Object.entries(works)) {
    await test.step(name, () => assert.deepEqual(faults(play(120, of)), []));
  }
});

Deno.test("the server went, and came back without it: nothing is said any more", () => {
  const scene = play(70, () => ({}));
  assert.equal(faults(scene).length, 1);
  scene.comfy = { ...scene.comfy, online: false, runningPromptId: null };
  scene.sample();
  assert.equal(scene.state.worker, null);
});
