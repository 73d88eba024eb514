import assert from "node:assert/strict";
import { absent, comfy, gib, ollama, policy, row, runner, Scene } from "./stories.ts";

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

Deno.test("margin: weights on disk, first growth 0.8 s after the confirmation: in time", () => {
  const scene = stage();
  handOff(scene);
  scene.run(789, { stepMs: 1 });
  assert.equal(scene.all("amend").length, 0);
  scene.holds(200, "comfy", gib(0.9)).run(1);
  const { fields } = scene.last("amend");
  assert.deepEqual(fields, { margin_ms: 790, late: false });
  assert.equal(scene.last("amend").key, scene.all("record").at(-1)?.key);
  assert.deepEqual([scene.state.handOffs, scene.state.lateHandOffs, scene.state.lastMarginMs], [1, 0, 790]);
});

Deno.test("margin: weights in RAM, it grows 50 ms after the frame: late, with its consequence and remedy", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(49, { stepMs: 1 });
  scene.holds(200, "comfy", gib(1)).run(160, { stepMs: 1 });
  scene.end(101).run(2, { stepMs: 1 });
  const { fields } = scene.last("amend");
  assert.equal(fields["margin_ms"], -161);
  assert.match(String(fields["consequence"]), /only part of its model/);
  assert.match(String(fields["remedy"]), /Purge ComfyUI/);
  assert.equal(scene.state.lateHandOffs, 1);
});

Deno.test("margin: growth below 64 MB isn't an allocation, and what it gives up first isn't held against it", () => {
  const scene = stage();
  handOff(scene);
  scene.holds(200, "comfy", gib(0.8) + 60 * 2 ** 20).run(20);
  assert.equal(scene.all("amend").length, 0);
  scene.holds(200, "comfy", gib(0.3)).run(20);
  scene.holds(200, "comfy", gib(0.4)).run(10);
  assert.equal(scene.all("amend").length, 1);
});

Deno.test("margin: what the last sample didn't show yet isn't taken for growth", () => {
  const scene = stage();
  // Since the sample, before the frame, ComfyUI went from 0.8 to 4 GiB.
  scene.holds(200, "comfy", gib(4));
  handOff(scene);
  assert.equal(scene.all("amend").length, 0);
});

Deno.test("margin: null after 10 s without an allocation, and the watch ends with its barrier", () => {
  const scene = stage();
  handOff(scene);
  scene.run(9_900);
  assert.equal(scene.all("amend").length, 0);
  assert.equal(scene.all("closeBarrier").length, 0);
  scene.run(200);
  assert.equal(scene.last("amend").fields["margin_ms"], null);
  assert.match(String(scene.last("amend").fields["margin_reason"]), /took no memory/);
  assert.equal(scene.state.margin, null);
  assert.equal(scene.all("closeBarrier").length, 1);
  assert.equal(scene.state.handOffs, 1);
});

Deno.test("margin: null with the reason when the driver gives no bytes, or nothing was confirmed", async (test) => {
  await test.step("no bytes of ComfyUI", () => {
    const scene = stage().holds(200, "comfy", null);
    scene.sample();
    handOff(scene);
    scene.run(10_100);
    assert.match(String(scene.last("amend").fields["margin_reason"]), /no bytes/);
  });
  await test.step("a busy runner", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(620, { reading: { smPctByPid: { 101: 90 } } });
    scene.run(20);
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    assert.match(String(scene.last("amend").fields["margin_reason"]), /not confirmed/);
    assert.equal(scene.state.handOffs, 0);
  });
});

Deno.test("a second hand-off while the first is still watched: each record gets its margin", () => {
  const scene = stage();
  handOff(scene);
  const [first] = scene.all("record");
  scene.run(500);
  scene.enqueue(0);
  scene.load("beta:latest", 102, gib(5)).run(1_000);
  scene.enqueue(1);
  assert.equal(scene.last("amend").key, first?.key);
  assert.match(String(scene.last("amend").fields["margin_reason"]), /another hand-off/);
  scene.run(100);
  scene.end(102).run(30);
  scene.holds(200, "comfy", gib(3)).run(20);
  assert.equal(scene.last("amend").key, scene.last("record").key);
  assert.ok(Number(scene.last("amend").fields["margin_ms"]) > 0);
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
    assert.deepEqual(scene.state.footprints["comfyui"], [gib(2), gib(4), gib(3)]);
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

Deno.test("a late hand-off teaches nothing: half a model's peak is no footprint", () => {
  const scene = stage();
  scene.enqueue(1);
  scene.run(50, { stepMs: 1 });
  scene.holds(200, "comfy", gib(3)).run(160);
  scene.end(101).run(30);
  scene.run(1_500);
  scene.enqueue(0);
  assert.equal(scene.state.lateHandOffs, 1);
  assert.equal(scene.state.footprints["comfyui"], undefined);
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

Deno.test("observe decides and records, paused stands by: neither touches anything", async (test) => {
  for (const mode of ["observe", "paused"] as const) {
    await test.step(mode, () => {
      const scene = stage(policy({ mode }));
      scene.enqueue(1);
      scene.run(2_000);
      assert.equal(scene.recorded("arbitration")["decision"], mode);
      assert.deepEqual(scene.recorded("arbitration")["models"], ["alpha:latest"]);
      const kinds = new Set(scene.effects.map((effect) => effect.kind));
      assert.deepEqual([...kinds], ["record"]);
    });
  }
});

Deno.test("explicit operations work in every mode", async (test) => {
  for (const mode of ["observe", "paused"] as const) {
    await test.step(mode, () => {
      const scene = stage(policy({ mode }));
      const id = scene.ask({ kind: "yield", models: null, confirm: true });
      scene.run(50);
      scene.end(101).run(30);
      assert.equal(scene.value(id, "yield").outcome, "released");
    });
  }
});

Deno.test("paused until a time: auto again by itself, and it is told", () => {
  const scene = stage();
  const untilMs = scene.sampleNow().atMs + 5_000;
  scene.setMode("paused", null, untilMs);
  assert.deepEqual([scene.state.mode, scene.state.modeUntilMs], ["paused", untilMs]);
  scene.run(4_500);
  scene.enqueue(1);
  scene.enqueue(0);
  assert.equal(scene.all("unload").length, 0);
  scene.run(2_000);
  assert.deepEqual([scene.state.mode, scene.state.modeUntilMs], ["auto", null]);
  assert.match(String(scene.recorded("arbitration")["message"]), /auto again/);
  scene.enqueue(1);
  scene.run(20);
  assert.equal(scene.all("unload").length, 1);
});

Deno.test("keep can be set with the mode, and null leaves it as it is", () => {
  const scene = stage();
  scene.setMode("auto", ["alpha"]);
  scene.setMode("auto");
  assert.deepEqual(scene.state.keep, ["alpha"]);
  scene.enqueue(1);
  scene.run(20);
  assert.equal(scene.all("unload").length, 0);
});

Deno.test("the mode is set while automatic work waits or runs: it asks for nothing more", async (test) => {
  await test.step("waiting behind a named yield", () => {
    const scene = stage().load("beta:latest", 102, gib(2));
    scene.sample();
    scene.ask({ kind: "yield", models: ["beta"], confirm: true });
    scene.run(50);
    scene.enqueue(1);
    assert.equal(scene.state.waiting.length, 1);
    scene.setMode("paused");
    assert.deepEqual([scene.state.waiting.length, scene.state.margin], [0, null]);
    scene.end(102).run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["beta:latest"]);
    assert.equal(scene.state.isBarrierOpen, false);
  });
  await test.step("opening: called off", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.setMode("observe");
    assert.equal(scene.state.holder, null);
    scene.run(100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("under way: watched to its end, and no further model is asked", () => {
    const scene = stage();
    scene.enqueue(1);
    scene.run(20);
    scene.setMode("paused");
    scene.load("beta:latest", 102, gib(2)).run(400);
    scene.end(101).end(102).run(50);
    assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest"]);
    assert.equal(scene.recorded("yield")["outcome"], "released");
  });
  await test.step("a purge that waits for its quiet second: called off", () => {
    const scene = new Scene(policy({ purge: { ...policy().purge, idleMs: 100 } })).holds(200, "comfy", gib(7));
    scene.sample();
    scene.wait(200).sample();
    assert.equal(scene.state.holder?.job.kind, "purge");
    scene.setMode("paused");
    scene.run(3_000);
    assert.equal(scene.all("freeComfy").length, 0);
  });
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

Deno.test("an enqueue that finds an explicit yield of everything under way shares it, margin included", () => {
  const scene = stage();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(20);
  scene.enqueue(1);
  assert.equal(scene.state.waiting.length, 0);
  scene.run(100);
  scene.end(101).run(30);
  assert.equal(scene.value(id, "yield").outcome, "released");
  scene.holds(200, "comfy", gib(4)).run(10);
  assert.equal(scene.last("amend").key, scene.last("record").key);
  assert.equal(scene.state.handOffs, 1);
  assert.equal(scene.all("unload").length, 1);
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

Deno.test("what is kept changes while a yield is under way: a new prompt gets a yield of its own after it", () => {
  const scene = stage(policy({ yield: { keep: ["beta"] } })).load("beta:latest", 102, gib(2));
  scene.sample();
  scene.enqueue(1);
  scene.run(20);
  const { generation } = scene.last("unload");
  scene.setMode("auto", []);
  scene.enqueue(0);
  scene.enqueue(1);
  assert.equal(scene.state.waiting.length, 1);
  assert.equal(scene.all("amend").length, 0, "the watch stays with the yield under way");
  scene.end(101).run(30);
  scene.run(50);
  assert.deepEqual(scene.all("unload").map((effect) => effect.model), ["alpha:latest", "beta:latest"]);
  scene.holds(200, "comfy", gib(3)).run(20);
  assert.equal(scene.last("amend").key, `job-${generation}-yield`);
});

Deno.test("a detached watcher: what an automatic yield left loading is unloaded only while ComfyUI still works", async (test) => {
  const leave = () => {
    const scene = new Scene();
    scene.ollama = ollama({ runners: [runner(101, "alpha:latest")] });
    scene.holds(101, "ollama", gib(6)).sample();
    scene.enqueue(1);
    scene.run(700);
    assert.equal(scene.recorded("yield")["outcome"], "busy");
    assert.deepEqual(scene.state.watched.map((entry) => entry.process.pid), [101]);
    scene.ollama = { ...scene.ollama, resident: [row("alpha:latest")] };
    return scene;
  };
  await test.step("it works", () => {
    const scene = leave();
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 1);
    scene.run(3_000);
    assert.equal(scene.all("unload").length, 1, "asked once");
  });
  await test.step("its work is done", () => {
    const scene = leave();
    scene.enqueue(0);
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("paused meanwhile", () => {
    const scene = leave();
    scene.setMode("paused");
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
  await test.step("it is kept by now", () => {
    const scene = leave();
    scene.setMode("auto", ["alpha"]);
    scene.run(1_100);
    assert.equal(scene.all("unload").length, 0);
  });
});

Deno.test("a runner that outlives many yields is watched once, and its release told once", () => {
  const scene = stage();
  for (let prompts = 0; prompts < 5; prompts++) {
    scene.enqueue(1);
    scene.run(620, { reading: { smPctByPid: { 101: 90 } } });
    scene.run(20);
    scene.enqueue(0);
    scene.run(20);
  }
  assert.equal(scene.state.watched.length, 1);
  const before = scene.all("amend").length;
  scene.end(101).run(2_000);
  const told = scene.all("amend").slice(before).filter((effect) => "released_later_ms" in effect.fields);
  assert.equal(told.length, 1);
  assert.equal(scene.state.watched.length, 0);
});
