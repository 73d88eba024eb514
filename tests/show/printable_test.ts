import assert from "node:assert/strict";
import type { CacheReport } from "../../lib/model/cache.ts";
import { viewReport } from "../../lib/operations/cache.ts";
import { styleFor } from "../../lib/show/cli_output.ts";
import { progressLine } from "../../lib/show/cli_progress.ts";
import { render } from "../../lib/show/cli_render.ts";
import { printable } from "../../lib/show/printable.ts";

const ESCAPE = String.fromCharCode(27);
const BELL = String.fromCharCode(7);
/** What a hostile or careless download can be called. */
const NAMES = [
  `loras/${ESCAPE}[2J${ESCAPE}[31mred`,
  "loras/two\nlines",
  `loras/\u202egnp.${BELL}`,
  `loras/${"n".repeat(243)}`,
];
const PLAIN = styleFor({ isTerminal: false });
const COLOURED = styleFor({ isTerminal: true });

const REPORT: CacheReport = {
  totals: {
    files: NAMES.length,
    measured: 0,
    unmeasurable: 0,
    bytes: 0,
    measuredBytes: 0,
    residentBytes: 0,
    pinnedBytes: 0,
    measuredAtMs: null,
  },
  files: NAMES.map((name, at) => ({
    path: `/models/${name}`,
    source: "comfyui",
    names: [name, "loras/again"],
    sizeBytes: at,
    residency: null,
    ageMs: null,
    isPinned: false,
  })),
  warming: [],
  places: [],
  problems: [{ path: `/models/${ESCAPE}]0;title${BELL}`, problem: "it is broken" }],
};

Deno.test("a file's name does nothing to the terminal it is told on, and takes one line of a table", () => {
  const report = viewReport(REPORT, true);
  const text = render("cache-report", report, PLAIN);
  assert.doesNotMatch(text.replaceAll("\n", ""), /[\p{Cc}\p{Bidi_Control}]/u);
  assert.match(text, /loras\/␛\[2J␛\[31mred \+1/);
  assert.match(text, /loras\/two␊lines/);
  assert.match(text, /\/models\/␛\]0;title␇: it is broken/);
  const rows = text.split("\n").filter((line) => line.includes("not measured yet"));
  assert.equal(rows.length, NAMES.length);
  assert.ok(rows.every((row) => row.length < 130), "one long name doesn't push the others off the screen");
  // Our own colours stay.
  assert.ok(render("cache-report", report, COLOURED).includes(`${ESCAPE}[33m/models/␛]0;title␇`));
  assert.equal(
    progressLine({ phase: `warming ${NAMES[0]}\n`, done: null, etaMs: null }, PLAIN),
    "warming loras/␛[2J␛[31mred␊",
  );
});

Deno.test("an answer's own lines and whatever isn't text stay as they are", () => {
  const answer = { response: "one\n\ttwo", at: null, n: [1, true, { deep: `${BELL}x` }] };
  assert.deepEqual(printable(answer), { response: "one\n\ttwo", at: null, n: [1, true, { deep: "␇x" }] });
});
