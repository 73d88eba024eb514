import assert from "node:assert/strict";
import { viewTuning } from "../../lib/decide/card_view.ts";
import { activeProfile, resolveWishes } from "../../lib/decide/card_wishes.ts";
import { cardState, LIMITS, openWorld, report, type World } from "./card_world.ts";

const HOT = { temperatureC: 90 };
const name = (world: World) => activeProfile(world.state)?.profile.name ?? null;
const lever = (lever: "power_limit_w" | "fan" | "core_offset_mhz" | "lock_core_mhz", value: number | "default") =>
  ({ kind: "lever", lever, value, confirmMs: null }) as const;

Deno.test("the profile follows the workload: ComfyUI gets all the power there is, Ollama the default", () => {
  const world = openWorld();
  world.pass(3, { comfy: true });
  assert.equal(name(world), "comfy");
  assert.equal(world.card.power_limit_w, 370);
  world.pass(6);
  world.pass(1, { ollama: true });
  assert.equal(name(world), "ollama");
  assert.equal(world.card.power_limit_w, 320);
});

Deno.test("at stock, a profile of stock values writes nothing: levers that we never touched are left alone", () => {
  const world = openWorld();
  world.pass(20, { ollama: true });
  assert.equal(name(world), "ollama");
  assert.deepEqual(world.written(), []);
});

Deno.test("iterating in ComfyUI flips nothing, even with a model that answers in the gaps", () => {
  const world = openWorld();
  for (let turn = 0; turn < 20; turn++) {
    world.pass(4, { comfy: true });
    world.pass(3, { ollama: true });
  }
  assert.deepEqual(world.written(), [{ power_limit_w: 370 }]);
});

Deno.test("a hand-over counts once the other has been quiet for the dwell of 5 s", () => {
  const world = openWorld();
  world.pass(10, { comfy: true });
  world.pass(4, { ollama: true });
  assert.equal(name(world), "comfy");
  world.pass(1, { ollama: true });
  assert.equal(name(world), "ollama");
});

Deno.test("balanced comes by itself only where profiles.idle_min says so", () => {
  const never = openWorld();
  never.pass(1, { comfy: true });
  never.pass(600);
  assert.equal(name(never), "comfy");
  const world = openWorld({ policy: { idleMs: 60_000 } });
  world.pass(1, { comfy: true });
  world.pass(60);
  assert.equal(name(world), "comfy");
  world.pass(1);
  assert.equal(name(world), "balanced");
});

Deno.test("what is set by hand outranks the workload, the governor outranks what is set by hand", () => {
  const world = openWorld();
  world.ask(lever("fan", 40));
  world.ask(lever("core_offset_mhz", 150));
  world.pass(1, { comfy: true });
  assert.deepEqual([world.card.fan, world.card.power_limit_w, world.card.core_offset_mhz], [40, 370, 150]);
  world.pass(5, { ...HOT, comfy: true });
  assert.deepEqual([world.card.fan, world.card.core_offset_mhz], [80, 150]);
  world.pass(20, { ...HOT, comfy: true });
  assert.deepEqual([world.card.core_offset_mhz, world.card.power_limit_w], [0, 370]);
  world.pass(20, { ...HOT, comfy: true });
  assert.equal(world.card.power_limit_w, 320);
  world.pass(20, { ...HOT, comfy: true });
  assert.equal(world.card.power_limit_w, 272);
  world.pass(130, { comfy: true });
  assert.deepEqual([world.card.fan, world.card.power_limit_w, world.card.core_offset_mhz], [40, 370, 150]);
});

Deno.test("the governor never slows a fan that stands higher, nor raises a lower power limit", () => {
  const world = openWorld();
  world.ask(lever("fan", 95));
  world.ask(lever("power_limit_w", 200));
  world.pass(80, HOT);
  assert.equal(world.state.governor.level, 4);
  assert.deepEqual([world.card.fan, world.card.power_limit_w], [95, 200]);
});

Deno.test("a blind sensor puts every lever to stock; fans set by hand don't come back by themselves", () => {
  const world = openWorld();
  world.ask(lever("fan", 40));
  world.ask(lever("power_limit_w", 350));
  world.pass(3, { temperatureC: null });
  assert.deepEqual([world.card.fan, world.card.power_limit_w], ["stock", 320]);
  const refused = world.ask(lever("fan", 50));
  assert.equal(refused?.kind, "refused");
  world.pass(30);
  assert.deepEqual([world.card.fan, world.card.power_limit_w], ["stock", 350]);
});

Deno.test("with the governor disabled, a blind sensor still takes manual fans back, and only those", () => {
  const world = openWorld();
  world.ask({ kind: "governor", enabled: false, reset: false });
  world.ask(lever("fan", 40));
  world.ask(lever("power_limit_w", 350));
  world.pass(3, { temperatureC: null });
  assert.deepEqual([world.card.fan, world.card.power_limit_w], ["stock", 350]);
});

Deno.test("a change that nobody confirms is taken back; a confirmed one stays", () => {
  const world = openWorld();
  world.ask(lever("power_limit_w", 250));
  world.ask({ kind: "lever", lever: "power_limit_w", value: 350, confirmMs: 30_000 });
  world.pass(29);
  assert.equal(world.card.power_limit_w, 350);
  world.pass(1);
  assert.equal(world.card.power_limit_w, 250);
  world.ask({ kind: "lever", lever: "power_limit_w", value: 350, confirmMs: 30_000 });
  assert.equal(world.ask({ kind: "confirm" })?.kind, "done");
  world.pass(60);
  assert.equal(world.card.power_limit_w, 350);
  assert.equal(world.ask({ kind: "confirm" })?.kind, "refused");
});

Deno.test("two changes on trial go back to where the first began, and the write says that it is a revert", () => {
  const world = openWorld();
  world.ask({ kind: "lever", lever: "core_offset_mhz", value: 100, confirmMs: 10_000 });
  world.ask({ kind: "lever", lever: "core_offset_mhz", value: 200, confirmMs: 10_000 });
  world.pass(10);
  assert.equal(world.card.core_offset_mhz, 0);
  const last = world.effects.findLast((effect) => effect.kind === "applyCard");
  assert.equal(last?.kind === "applyCard" ? last.writes[0]?.reason.by : null, "confirm_revert");
});

Deno.test("a profile saved on trial is applied, and gone again unless confirmed", () => {
  const world = openWorld();
  world.ask({ kind: "save", name: "hot", values: { core_offset_mhz: 200 }, confirmMs: 10_000 });
  assert.equal(world.card.core_offset_mhz, 200);
  world.pass(10);
  assert.equal(world.card.core_offset_mhz, 0);
  assert.deepEqual(world.state.profiles, []);
});

Deno.test("no more than 64 profiles are kept; one that is kept can still be changed", () => {
  const world = openWorld();
  const save = (name: string) => world.ask({ kind: "save", name, values: { fan: 50 }, confirmMs: null })?.kind;
  for (let n = 0; n < 64; n++) assert.notEqual(save(`p${n}`), "refused");
  assert.equal(save("p64"), "refused");
  assert.notEqual(save("p63"), "refused");
  assert.equal(world.state.profiles.length, 64);
});

Deno.test("values are checked against the card, and the refusal says what it allows", () => {
  const world = openWorld();
  const reply = world.ask(lever("power_limit_w", 400));
  assert.equal(
    reply?.kind === "refused" ? reply.message : null,
    "Cannot set the card: power_limit_w must be from 150 to 370 on this card, not 400",
  );
  for (const bad of ["ollama", "auto", "No Such Name", ""]) {
    assert.equal(world.ask({ kind: "save", name: bad, values: { fan: 50 }, confirmMs: null })?.kind, "refused", bad);
  }
  assert.equal(world.ask({ kind: "save", name: "x", values: {}, confirmMs: null })?.kind, "refused");
  assert.equal(world.ask({ kind: "save", name: "x", values: { fan: 20 }, confirmMs: null })?.kind, "refused");
  assert.equal(world.ask({ kind: "delete", name: "comfy" })?.kind, "refused");
  assert.equal(world.ask({ kind: "profile", name: "nope", confirmMs: null })?.kind, "refused");
});

Deno.test("a lock snaps to the nearest clock that the card knows, not above", () => {
  const world = openWorld();
  world.ask(lever("lock_core_mhz", 2399));
  assert.equal(world.card.lock_core_mhz, 1800);
});

Deno.test("restore puts every lever to stock and the card stays there until a profile is applied", () => {
  const world = openWorld();
  world.ask(lever("fan", 60));
  world.pass(1, { comfy: true });
  assert.equal(world.ask({ kind: "restore", scope: "all" })?.kind, "done");
  world.pass(20, { comfy: true });
  assert.deepEqual([world.card.fan, world.card.power_limit_w], ["stock", 320]);
  world.ask({ kind: "profile", name: "auto", confirmMs: null });
  assert.equal(world.card.power_limit_w, 370);
});

Deno.test("the end restores what was set, and nothing is set after it", () => {
  const world = openWorld();
  world.pass(1, { comfy: true });
  world.send({ type: "stopped" });
  assert.equal(world.card.power_limit_w, 320);
  const writes = world.written().length;
  world.pass(10, { comfy: true });
  assert.equal(world.ask(lever("fan", 50))?.kind, "refused");
  assert.equal(world.written().length, writes);
});

Deno.test("after an unclean end the profile that was active is quarantined until it is applied by hand", () => {
  const world = openWorld({ isOpen: false });
  world.send({ type: "cardOpened", limits: LIMITS, state: cardState(), uncleanEnd: { atMs: 0, profile: "comfy" } });
  world.pass(10, { comfy: true });
  assert.equal(name(world), null);
  assert.match(viewTuning(world.state, (ms) => ms).why, /^comfy is quarantined: It was active when the service ended/);
  const kept = world.effects.find((effect) => effect.kind === "keepBook");
  assert.equal(kept?.kind === "keepBook" && kept.forgetsUncleanEnd, true);
  world.ask({ kind: "profile", name: "comfy", confirmMs: null });
  assert.equal(world.card.power_limit_w, 370);
  assert.deepEqual(world.state.quarantine, []);
});

Deno.test("an unclean end without a profile accuses nobody, and is told all the same", () => {
  const world = openWorld({ isOpen: false });
  world.send({ type: "cardOpened", limits: LIMITS, state: cardState(), uncleanEnd: { atMs: 0, profile: null } });
  assert.deepEqual(world.state.quarantine, []);
  const told = world.effects.flatMap((effect) => effect.kind === "recordTuning" ? [effect.item.fields["cause"]] : []);
  assert.deepEqual(told, ["unclean_end"]);
  assert.ok(world.effects.some((effect) => effect.kind === "keepBook" && effect.forgetsUncleanEnd));
});

Deno.test("an Xid takes back what is set and quarantines the profile; at stock it accuses nobody", () => {
  const xid = { kind: "xid", atMs: 0, code: 62, source: "nvml" } as const;
  const world = openWorld();
  world.send({ type: "cardNews", news: xid });
  assert.equal(world.state.quarantine.length, 0);
  world.pass(1, { comfy: true });
  world.send({ type: "cardNews", news: xid });
  assert.equal(world.card.power_limit_w, 320);
  assert.equal(world.state.quarantine[0]?.reason, "Xid 62 while it was active");
});

Deno.test("drift is said; it is undone only where that was configured, and a tool that keeps writing wins", () => {
  const told = openWorld();
  told.ask(lever("power_limit_w", 300));
  told.card.power_limit_w = 200;
  told.pass(6);
  assert.deepEqual(told.state.drift.map(({ found, suspects }) => [found, suspects]), [[200, ["lactd (pid 7)"]]]);
  assert.equal(told.card.power_limit_w, 200);
  const world = openWorld({ policy: { reapply: true } });
  world.ask(lever("power_limit_w", 300));
  for (let turn = 0; turn < 10; turn++) {
    world.card.power_limit_w = 200;
    world.pass(6);
  }
  assert.equal(world.written().length, 1 + 3);
  assert.equal(world.state.drift[0]?.isConflict, true);
  world.card.power_limit_w = 300;
  world.pass(6);
  assert.deepEqual(world.state.drift, []);
});

Deno.test("a lever that failed is tried again later and later; a refused one isn't until it is asked for by hand", () => {
  const world = openWorld();
  world.answerWith = (which, value) => report(which, value, { verdict: "failed", readBack: 320 });
  world.ask(lever("power_limit_w", 300));
  world.pass(5);
  assert.equal(world.written().length, 2);
  world.pass(9);
  assert.equal(world.written().length, 2);
  world.answerWith = report;
  world.pass(1);
  assert.equal(world.card.power_limit_w, 300);
  world.answerWith = (which, value) => report(which, value, { verdict: "not_permitted", readBack: 300 });
  world.ask(lever("power_limit_w", 310));
  const writes = world.written().length;
  world.pass(100);
  assert.equal(world.written().length, writes);
  world.ask(lever("power_limit_w", 310));
  assert.equal(world.written().length, writes + 1);
});

Deno.test("a driver that came back gets what is wanted anew", () => {
  const world = openWorld();
  world.ask(lever("power_limit_w", 300));
  world.card.power_limit_w = 320;
  world.send({ type: "cardNews", news: { kind: "reopened", atMs: 0 } });
  assert.equal(world.card.power_limit_w, 300);
  assert.deepEqual(world.state.drift, []);
});

Deno.test("in observe and paused nothing is set by itself, and what is asked for by hand is", () => {
  const world = openWorld();
  world.mode = "observe";
  world.pass(30, { ...HOT, comfy: true });
  assert.deepEqual(world.written(), []);
  world.ask(lever("fan", 50));
  assert.equal(world.card.fan, 80);
});

Deno.test("a sweep holds the card: no profile switches beside it, and the governor still outranks it", () => {
  const world = openWorld();
  world.send({ type: "sweepHolds", setting: { core_offset_mhz: 300, power_limit_w: 999 }, text: "step 3" });
  world.pass(3, { comfy: true });
  assert.equal(name(world), null);
  assert.deepEqual([world.card.core_offset_mhz, world.card.power_limit_w], [300, 370]);
  world.pass(25, HOT);
  assert.equal(world.card.core_offset_mhz, 0);
  world.send({ type: "sweepHolds", setting: null, text: "" });
  assert.equal(resolveWishes(world.state).get("core_offset_mhz")?.by, "governor");
});
