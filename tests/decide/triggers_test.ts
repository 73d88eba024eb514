import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { absent, comfy, gib, ollama, policy, row, runner } from "./stories.ts";

/** A model of 10 GiB resident, ComfyUI idle with its context. */
function stage(given = policy()): Scene {
  const scene = new Scene(given).load("alpha:latest", 101, gib(10)).holds(200, "comfy", gib(0.8));
  scene.sample();
  return scene;
}

/** The hand-off up to the driver's confirmation, 211 ms after the frame. */
function handOff(scene: Scene): void {
  scene.enqueue(1);
  scene.run(209, { stepMs: 1 });
  scene.end(101).run(2, { stepMs: 1 });
  assert.equal(scene.recorded("yield")["outcome"], "released");
}

Deno.test("ComfyUI enqueues: every resident model is asked to go on the frame itself, and its record is kept", () => {
  const scene = stage().load("beta:latest", 102, gib(2));
  scene.sample();
  scene.enqueue(1);
  scene.run(2, { stepMs: 1 });
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.end(101).end(102).run(10);
  scene.run(10);
  const { fields } = scene.last("record").item;
  assert.deepEqual([fields["outcome"], fields["cause"]], ["released", "comfy_enqueued"]);
  assert.equal(fields["freed_gb"], 12);
});

Deno.test("only when needed: what ComfyUI is said or known to need fits, so nobody is evicted", async (test) => {
  await test.step("configured", () => {
    const scene = stage(policy({ needs: { comfyui: gib(4) } }));
    scene.enqueue(1);
    assert.equal(scene.all("unload").length, 0);
    assert.equal(scene.recorded("arbitration")["decision"], "both_stay");
    assert.equal(scene.state.holder, null);
  });
  await test.step("what it holds already counts, and so does the headroom", () => {
    // Free: 16 − 0.3 − 10 − 0.8 = 4.9 GiB. 5.2 in all, 0.8 of them held, and 0.5 of headroom: 4.9.
    const fitting = stage(policy({ needs: { comfyui: gib(5.1) } }));
    fitting.enqueue(1);
    assert.equal(fitting.recorded("arbitration")["decision"], "both_stay");
    const tight = stage(policy({ needs: { comfyui: gib(5.3) } }));
    tight.enqueue(1);
    tight.run(20);
    assert.equal(tight.all("unload").length, 1);
  });
  await test.step("learned from three stretches of work, the largest of the last ten", () => {
    const scene = new Scene().holds(200, "comfy", gib(0.8));
    scene.sample();
    for (const peak of [2, 4, 3]) {
      scene.enqueue(1);
      scene.holds(200, "comfy", gib(peak)).run(1_500);
      scene.enqueue(0);
      scene.run(100);
    }
    assert.deepEqual(scene.state.footprints["comfyui"]?.map(({ peakBytes }) => peakBytes), [gib(2), gib(4), gib(3)]);
    scene.holds(200, "comfy", gib(0.8)).load("alpha:latest", 101, gib(8)).run(1_000);
    scene.enqueue(1);
    scene.run(50);
    assert.equal(scene.all("unload").length, 0);
    scene.enqueue(0);
    scene.load("beta:latest", 102, gib(4)).run(1_000);
    scene.enqueue(1);
    scene.run(50);
    assert.equal(scene.all("unload").length, 2);
  });
  await test.step("two measurements are too few: unknown, so all of the card", () => {
    const scene = new Scene(policy(), { comfyui: [gib(1), gib(1)] }).load("alpha:latest", 101, gib(4));
    scene.sample();
    scene.enqueue(1);
    scene.run(20);
    assert.equal(scene.all("unload").length, 1);
  });
  await test.step("beside a runner that is still loading nothing is said to fit", () => {
    const scene = new Scene(policy({ needs: { comfyui: gib(4) } }));
    scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
    scene.holds(101, "ollama", gib(0.4)).sample();
    scene.enqueue(1);
    assert.equal(scene.state.holder?.job.kind, "yield");
  });
});

Deno.test("keep: an automatic yield spares what is kept, by any of its tags, a loading runner included", () => {
  const scene = stage(policy({ yield: { keep: ["alpha"] } })).load("beta:latest", 102, gib(2));
  scene.ollama = { ...scene.ollama, runners: [...scene.ollama.runners, runner(103, "gamma:latest")] };
  scene.holds(103, "ollama", gib(1)).sample();
  scene.enqueue(1);
  scene.run(20);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
  scene.ollama = { ...scene.ollama, resident: [...scene.ollama.resident, row("gamma:latest")] };
  scene.run(300);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest", "gamma:latest"]);
  scene.end(102).end(103).run(50);
  assert.equal(scene.recorded("yield")["outcome"], "released");
  assert.deepEqual(scene.recorded("yield")["pids"], [102, 103]);
});

Deno.test("everything is kept: nothing to hand over, nothing recorded, no race to watch", () => {
  const scene = stage(policy({ yield: { keep: ["alpha"] } }));
  scene.enqueue(1);
  scene.run(50);
  assert.equal(scene.all("unload").length, 0);
  assert.equal(scene.all("record").length, 0);
  assert.equal(scene.all("amend").length, 0);
  assert.equal(scene.state.margin, null);
  assert.equal(scene.state.isBarrierOpen, false);
});

Deno.test("a model loaded since the last sample is found by looking, not overlooked", () => {
  const scene = new Scene().holds(200, "comfy", gib(0.8));
  scene.sample();
  scene.load("alpha:latest", 101, gib(10)).wait(600);
  scene.enqueue(1);
  scene.run(50);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
  scene.end(101).run(30);
  assert.equal(scene.recorded("yield")["outcome"], "released");
});

Deno.test("a flapping socket never causes duplicate yields", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(5, { stepMs: 1 });
  for (let flaps = 0; flaps < 10; flaps++) {
    scene.enqueue(0);
    scene.enqueue(1);
    scene.run(3, { stepMs: 1 });
  }
  assert.equal(scene.all("unload").length, 1);
  assert.equal(scene.state.waiting.length, 0);
  scene.end(101).run(30);
  assert.equal(scene.all("record").length, 1);
});

Deno.test("more prompts in a queue that already has work trigger nothing", () => {
  const scene = stage();
  handOff(scene);
  const before = scene.effects.length;
  scene.enqueue(2);
  scene.enqueue(3);
  scene.enqueue(2);
  assert.deepEqual(scene.effects.slice(before), []);
});

Deno.test("the socket is down: the poll in the sample does the same, a second later at worst", () => {
  const scene = stage();
  scene.comfy = comfy({ socket: "down", queueRemaining: 1, executing: true });
  scene.wait(1_000).sample();
  scene.run(20);
  assert.equal(scene.all("unload").length, 1);
});

Deno.test("nobody is asked for what frees nothing here: Ollama or ComfyUI on another host, ComfyUI down", async (test) => {
  await test.step("Ollama elsewhere", () => {
    const scene = new Scene();
    scene.ollama = ollama({ isRemote: true, resident: [row("alpha:latest")] });
    scene.sample();
    scene.enqueue(1);
    assert.deepEqual(scene.effects, []);
  });
  await test.step("ComfyUI elsewhere", () => {
    const scene = stage();
    scene.comfy = comfy({ isRemote: true, server: null });
    scene.sample();
    scene.enqueue(1);
    assert.deepEqual(scene.effects, []);
  });
});

Deno.test("GPU absent: the hand-off goes on unconfirmed, or is held back when the configuration says so", async (test) => {
  await test.step("goes on", () => {
    const scene = stage();
    scene.gpu = absent();
    scene.sample();
    scene.enqueue(1);
    scene.run(50);
    assert.equal(scene.all("unload").length, 1);
    scene.end(101).run(300);
    assert.equal(scene.recorded("yield")["outcome"], "unconfirmed");
    assert.equal(scene.all("openBarrier").length, 0);
    assert.equal(scene.state.margin, null);
  });
  await test.step("held back", () => {
    const scene = stage(policy({ proceedUnconfirmed: false }));
    scene.gpu = absent();
    scene.sample();
    scene.enqueue(1);
    scene.run(50);
    assert.equal(scene.all("unload").length, 0);
    assert.equal(scene.recorded("arbitration")["decision"], "held_back");
  });
});

Deno.test("a lost barrier isn't reopened before a sample has read the card again", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(5);
  scene.send({ type: "barrierLost", reason: "a driver call is overdue" });
  scene.run(900);
  assert.equal(scene.all("openBarrier").length, 1);
  assert.equal(scene.all("closeBarrier").length, 1);
  scene.run(200);
  assert.equal(scene.all("openBarrier").length, 2);
});

Deno.test("ComfyUI's work is over before its yield got the lane: the yield lapses", async (test) => {
  const waits = () => {
    const scene = stage().load("beta:latest", 102, gib(2));
    scene.sample();
    scene.ask({ kind: "yield", models: ["beta"], confirm: true });
    scene.run(20);
    scene.enqueue(1);
    scene.run(20);
    assert.equal(scene.state.waiting.length, 1);
    return scene;
  };
  const lapsed = (scene: Scene) => {
    assert.deepEqual([scene.state.waiting.length, scene.state.margin], [0, null]);
    scene.end(102).run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
  };
  await test.step("its queue is empty", () => {
    const scene = waits();
    scene.enqueue(0);
    lapsed(scene);
  });
  await test.step("it is gone, and its queue with it", () => {
    const scene = waits();
    scene.comfy = comfy({ online: false, reason: "connection refused", queueRemaining: null, executing: null });
    scene.sample();
    lapsed(scene);
  });
});
