/** What people read of the card's settings on the command line. */
import assert from "node:assert/strict";
import { fan } from "../../lib/operations/fan.ts";
import { governor, setGovernor } from "../../lib/operations/governor.ts";
import { applyProfile, overclock, saveProfile, setLever } from "../../lib/operations/overclock.ts";
import type { Operation } from "../../lib/operations/operation.ts";
import { styleFor } from "../../lib/show/cli_output.ts";
import { render } from "../../lib/show/cli_render.ts";
import { fakeBox } from "../operations/fake_box.ts";

const PLAIN = styleFor({ isTerminal: false });

/** What the command prints, after what was asked before it. */
async function printed(
  operation: Operation,
  before: readonly (readonly [Operation, object])[] = [],
  input: object = {},
): Promise<string> {
  const { services, report } = fakeBox();
  const signal = new AbortController().signal;
  const answer = async (asked: Operation, given: object) => {
    const outcome = await asked.invoke(services, given, { signal, progress: () => {}, report });
    assert.ok(outcome.ok, JSON.stringify(outcome));
    return outcome.value;
  };
  for (const [asked, given] of before) await answer(asked, given);
  return render(operation.name, await answer(operation, input), PLAIN);
}

Deno.test("overclock: the profile in force and why, each with its evidence, each lever with its verdict", async () => {
  const text = await printed(overclock, [[applyProfile, { profile: "comfy" }]]);
  assert.match(text, /^Profile +comfy: Applied by hand$/m);
  assert.match(text, /^PROFILE +LEVER +VALUE +EVIDENCE$/m);
  assert.match(text, /^comfy \* +power_limit_w +max +\S/m);
  assert.match(text, /^power_limit_w +150 to 370 W, stock 320 +370 W +370 W +honoured +operator: /m);
  assert.match(text, /^core_offset_mhz +-1000 to 1000 MHz, stock 0 +– +0 MHz +– +never set$/m);
  assert.ok(!text.includes("{"), "no JSON");
});

Deno.test("overclock: a change on trial says when it is taken back", async () => {
  const text = await printed(overclock, [[setLever, { lever: "power_limit_w", value: 300, confirm_within_s: 30 }]]);
  assert.match(text, /^On trial +power_limit_w 300, taken back at \d/m);
});

Deno.test("a change: its message, and the levers that were asked about", async () => {
  const text = await printed(setLever, [], { lever: "fan", value: 55, confirm_within_s: 0 });
  assert.match(text, /^Set fan 55$/m);
  assert.match(text, /^fan +30 to 100 % +55 % +55 % +honoured/m);
  assert.equal(await printed(saveProfile, [], { name: "quiet", power_limit_w: 250 }), "Profile quiet is saved\n");
});

Deno.test("fan and governor: where they stand, in words", async () => {
  const pinned = await printed(fan, [[setLever, { lever: "fan", value: 55, confirm_within_s: 0 }]]);
  assert.match(pinned, /^Fans +manual, set to 55 %$/m);
  assert.match(pinned, /^Range +30 to 100 %$/m);
  const text = await printed(governor);
  assert.match(text, /^Governor +on$/m);
  assert.match(text, /^ {2}0 {2}nothing {2}← here$/m);
  assert.match(text, /^ {2}4 {2}power to 85 % of default/m);
  assert.match(await printed(setGovernor, [], { enabled: false, reset: false }), /^Governor +off$/m);
});
