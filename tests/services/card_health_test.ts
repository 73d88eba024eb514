import assert from "node:assert/strict";
import { viewGovernor, viewTuning } from "../../lib/decide/card_view.ts";
import { checkTuning } from "../../lib/services/card_health.ts";
import { openWorld, report, type World } from "../decide/card_world.ts";

const look = ({ state }: World) => checkTuning(viewTuning(state, (ms) => ms), viewGovernor(state, (ms) => ms));

Deno.test("a card that stands as it was set is well, with the profile and why", () => {
  const world = openWorld();
  world.pass(1, { comfy: true });
  assert.deepEqual([look(world).state, look(world).finding], ["ok", "Profile comfy is in force: ComfyUI works"]);
});

Deno.test("before the card is there, tuning is nobody's trouble", () => {
  assert.equal(look(openWorld({ isOpen: false })).state, "not_applicable");
});

Deno.test("a blind sensor, drift, a lever without effect and a quarantine are each said, with what helps", () => {
  const blind = openWorld();
  blind.pass(3, { temperatureC: null });
  const drifted = openWorld();
  drifted.ask({ kind: "lever", lever: "power_limit_w", value: 300, confirmMs: null });
  drifted.card.power_limit_w = 200;
  drifted.pass(6);
  const ignored = openWorld();
  ignored.answerWith = (lever, value) => report(lever, value, { verdict: "ignored", readBack: 0, evidence: "still 0" });
  ignored.ask({ kind: "lever", lever: "core_offset_mhz", value: 150, confirmMs: null });
  const quarantined = openWorld();
  quarantined.pass(1, { comfy: true });
  quarantined.send({ type: "cardNews", news: { kind: "xid", atMs: 0, code: 62, source: "nvml" } });
  const found = [blind, drifted, ignored, quarantined].map(look);
  assert.deepEqual(found.map(({ finding }) => finding), [
    "Blind, so stock: the card gives no temperature",
    "power_limit_w was set to 300 and now reads 200; it may be lactd (pid 7)",
    "core_offset_mhz is ignored: still 0",
    "Profile comfy is quarantined: Xid 62 while it was active",
  ]);
  for (const { state, breaks, remedy } of found) {
    assert.equal(state, "degraded");
    assert.ok(breaks !== null && remedy !== null);
  }
});

Deno.test("an Ollama that stayed on the CPU after a resume is said, with what helps; one that came back isn't", () => {
  const { state } = openWorld();
  const tuning = viewTuning(state, (ms) => ms);
  const check = (isOnGpu: boolean) =>
    checkTuning(
      { ...tuning, ollamaReturn: { isOnGpu, text: "big:27b holds no VRAM" } },
      viewGovernor(state, (ms) => ms),
    );
  const away = check(false);
  assert.deepEqual([away.state, away.finding], ["degraded", "big:27b holds no VRAM"]);
  assert.match(away.remedy ?? "", /^systemctl restart ollama/);
  assert.equal(check(true).state, "ok");
});
