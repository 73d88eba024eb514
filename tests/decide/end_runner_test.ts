/** The ladder's last step: the end of one runner that was reported as stuck. */
import assert from "node:assert/strict";
import { Scene } from "./scene.ts";
import { absent, gib, policy } from "./stories.ts";

const ALPHA = "alpha:latest";
const STUCK = { pid: 101, startTime: 1010 };

/** A yield has reported alpha's runner as a fault. */
function stuck(given = policy({ mayEndRunners: true })): Scene {
  const scene = new Scene(given).load(ALPHA, 101, gib(8)).holds(200, "comfy", gib(0.8));
  scene.sample();
  const id = scene.ask({ kind: "yield", models: null, confirm: true });
  scene.run(9_000, { stepMs: 100 });
  assert.equal(scene.value(id, "yield").outcome, "fault");
  return scene;
}

function end(scene: Scene, process = STUCK): string {
  return scene.ask({ kind: "endRunner", process, model: ALPHA });
}

Deno.test("the fault names pid and start time, and the words that end it", () => {
  const fields = stuck().recorded("fault");
  assert.match(String(fields["message"]), /hyperswap runner end 101 1010/);
});

Deno.test("ended by pid and start time, and released by the driver's word", () => {
  const scene = stuck();
  const id = end(scene);
  scene.run(60);
  assert.deepEqual(scene.last("endRunner").process, STUCK);
  scene.send({ type: "runnerEnded", generation: scene.last("endRunner").generation, reply: { kind: "signalled" } });
  scene.run(50);
  assert.ok(!scene.isAnswered(id), "a signal is no release");
  scene.end(101).run(30);
  const value = scene.value(id, "endRunner");
  assert.deepEqual([value.outcome, value.freedBytes], ["released", gib(8)]);
  const fields = scene.recorded("fault");
  assert.deepEqual([fields["what"], fields["outcome"], fields["pids"]], ["runner_ended", "released", [101]]);
  scene.sample();
  assert.deepEqual(scene.state.stuck, []);
});

Deno.test("refused", async (test) => {
  await test.step("it isn't configured", () => {
    const scene = stuck(policy());
    const refusal = scene.refusal(end(scene));
    assert.equal(refusal.code, "forbidden");
    assert.match(refusal.hint ?? "", /end_stuck_runners = true/);
  });
  await test.step("a runner that nobody reported", () => {
    const scene = new Scene(policy({ mayEndRunners: true })).load(ALPHA, 101);
    scene.sample();
    assert.equal(scene.refusal(end(scene)).code, "not_found");
  });
  await test.step("the pid with another start time", () => {
    const scene = stuck();
    const refusal = scene.refusal(end(scene, { pid: 101, startTime: 7 }));
    assert.equal(refusal.code, "not_found");
    assert.match(refusal.hint ?? "", /pid 101 starttime 1010/);
  });
  await test.step("it has let go since", () => {
    const scene = stuck();
    scene.end(101).sample();
    assert.equal(scene.refusal(end(scene)).code, "not_found");
  });
  await test.step("it is another process by the time of the signal", () => {
    const scene = stuck();
    const id = end(scene);
    scene.run(60);
    scene.send({
      type: "runnerEnded",
      generation: scene.last("endRunner").generation,
      reply: { kind: "other_process" },
    });
    assert.equal(scene.refusal(id).code, "not_found");
  });
  await test.step("the kernel refuses", () => {
    const scene = stuck();
    const id = end(scene);
    scene.run(60);
    const reply = { kind: "failed" as const, message: "Cannot pidfd_send_signal: EPERM" };
    scene.send({ type: "runnerEnded", generation: scene.last("endRunner").generation, reply });
    assert.equal(scene.refusal(id).code, "unavailable");
    assert.match(scene.refusal(id).hint ?? "", /CAP_KILL/);
  });
});

Deno.test("without a driver it is ended all the same, and called unconfirmed", () => {
  const scene = stuck();
  scene.gpu = absent();
  scene.sample();
  const id = end(scene);
  scene.run(200);
  scene.send({ type: "runnerEnded", generation: scene.last("endRunner").generation, reply: { kind: "signalled" } });
  assert.equal(scene.value(id, "endRunner").outcome, "unconfirmed");
});

Deno.test("a card whose residual never held still confirms nothing: ended, and called unconfirmed", () => {
  const scene = stuck();
  const id = end(scene);
  for (let n = 0; n < 15; n++) scene.wait(10).read({ residualBytes: gib(n % 2) });
  scene.send({ type: "runnerEnded", generation: scene.last("endRunner").generation, reply: { kind: "signalled" } });
  scene.end(101).run(11_000, { stepMs: 100 });
  assert.equal(scene.value(id, "endRunner").outcome, "unconfirmed");
});

Deno.test("the driver never has it back: timeout", () => {
  const scene = stuck();
  const id = end(scene);
  scene.run(60);
  scene.send({ type: "runnerEnded", generation: scene.last("endRunner").generation, reply: { kind: "signalled" } });
  scene.run(11_000, { stepMs: 100 });
  assert.equal(scene.value(id, "endRunner").outcome, "timeout");
});
