import assert from "node:assert/strict";
import { GatedBox } from "./measured_hand_offs.ts";

/** The look at runners, both requests and the card's two readings; all in lab time. */
const MOST_ADDED_MS = 15;

Deno.test("the measured hand-offs, with the gate: never late, never half a model, no longer than the release", async () => {
  await using gated = await GatedBox.open(5);
  for (const weights of ["disk", "ram"] as const) {
    const handOff = await gated.handOff(weights, { isGated: true });
    const said = JSON.stringify(handOff);
    assert.equal(handOff.outcome, "released", said);
    assert.equal(handOff.isGated, true, said);
    assert.ok(handOff.marginMs !== null && handOff.marginMs > 0, said);
    assert.ok(handOff.isWhole, `half a model: ${said}`);
    assert.ok(handOff.confirmMs !== null && handOff.heldMs !== null, said);
    assert.ok(handOff.heldMs - handOff.confirmMs <= MOST_ADDED_MS, said);
  }
  const control = await gated.handOff("ram", { isGated: false });
  assert.ok(control.marginMs !== null && control.marginMs < 0 && !control.isWhole, JSON.stringify(control));
});

Deno.test("a call is held until ComfyUI is idle and its memory is back, and then isn't spilled", async () => {
  await using gated = await GatedBox.open(6);
  const { box, clock, doors } = gated;
  box.comfy.warm("sd_xl_base_1.0.safetensors", 1);
  await gated.prompt(doors.urls.comfyui ?? "");
  await clock.advance(300);
  const sentMs = clock.monotonicMs();
  const response = await gated.call(doors.urls.ollama ?? "");
  const heldMs = Number(response.headers.get("x-hyperswap-held-ms"));
  assert.equal(response.headers.get("x-hyperswap-reason"), "released");
  // At the earliest a second after the prompt's end, and ComfyUI takes at least a second to give it back.
  assert.ok(heldMs > 2_000 && heldMs < clock.monotonicMs() - sentMs, `held for ${heldMs} ms`);
  const listed = await gated.settle(fetch(`${box.ollama.url}/api/ps`).then((answer) => answer.json()));
  assert.equal(listed.models[0]?.size_vram, listed.models[0]?.size, "it was spilled");
  const purge = (await gated.history()).find(({ kind }) => kind === "purge");
  assert.deepEqual([purge?.fields["outcome"], purge?.fields["gated"], purge?.fields["held_requests"]], [
    "released",
    true,
    1,
  ]);
});
