import assert from "node:assert/strict";
import { add, lastLine, NOTHING, tally } from "./junit.ts";

/** As Deno 2.4.2 and 2.9.6 write it. */
const REPORT = `<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="deno test" tests="5" failures="1" errors="0" time="0.017">
    <testsuite name="./x_test.ts" tests="5" disabled="1" errors="0" failures="1">
        <testcase name="a" classname="./x_test.ts" time="0.008" line="6" col="6">
        </testcase>
        <testcase name="needs gcc &gt; 11 &amp; &quot;make&quot;" classname="./x_test.ts" time="0.000" line="7" col="6">
            <skipped/>
        </testcase>
        <testcase name="a &gt; step" classname="./x_test.ts" time="0.000" line="6" col="139">
        </testcase>
        <testcase name="b" classname="./x_test.ts" time="0.001" line="9" col="6">
            <failure message="Uncaught AssertionError: &lt;testcase&gt;">at x_test.ts</failure>
        </testcase>
        <testcase name="c" time="0.001"/>
    </testsuite>
</testsuites>`;

Deno.test("a JUnit report is counted case by case", () => {
  assert.deepEqual(tally(REPORT), { passed: 3, failed: 1, skipped: ['needs gcc > 11 & "make"'] });
});

Deno.test("a report without cases counts nothing", () => {
  assert.deepEqual(tally(`<testsuites name="deno test" tests="0"></testsuites>`), NOTHING);
});

Deno.test("the last line names what was skipped only when something was", () => {
  assert.equal(lastLine({ passed: 3, failed: 1, skipped: [] }), "3 passed, 1 failed");
  assert.equal(
    lastLine(add({ passed: 3, failed: 0, skipped: ["a"] }, { passed: 1, failed: 0, skipped: ["b"] })),
    "4 passed, 0 failed, 2 skipped",
  );
});
