import assert from "node:assert/strict";
import { type Check, differences } from "./compare.ts";
import type { Expected } from "./expected.ts";

const EXPECTED: Readonly<Record<string, Expected>> = {
  ping: { failures: [] },
  image: { failures: ["no such tool"], warnings: ["no retry"] },
};
const IMAGE: readonly Check[] = [
  { status: "FAILURE", errorMessage: "no such tool, but others" },
  { status: "WARNING", errorMessage: "no retry" },
  { status: "INFO", errorMessage: "whatever" },
];

Deno.test("whatever comes out otherwise than expected is named", () => {
  const of = (entries: Readonly<Record<string, readonly Check[]>>) =>
    differences(new Map(Object.entries(entries)), EXPECTED);
  const ping = [{ status: "SUCCESS" }];
  assert.deepEqual(of({ ping, image: IMAGE }), []);
  assert.deepEqual(of({ ping }), ["image: wasn't run"]);
  assert.deepEqual(of({ ping, image: IMAGE, pong: [] }), ["pong: is new"]);
  assert.deepEqual(of({ ping: [{ status: "FAILURE", errorMessage: "late" }], image: IMAGE }), ["ping: late"]);
  assert.deepEqual(of({ ping, image: IMAGE.slice(1) }), ["image: no longer says: no such tool"]);
  assert.deepEqual(of({ ping, image: IMAGE.slice(0, 1) }), ["image: no longer says: no retry"]);
});
