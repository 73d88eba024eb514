import assert from "node:assert/strict";
import { observe } from "../../lib/decide/runner_evidence.ts";
import type { RunnerProbe } from "../../lib/model/events.ts";
import { reading } from "./stories.ts";

function probe(
  cpuSeconds: number | null,
  activity: RunnerProbe["activity"] = null,
  tokensLeft: number | null = null,
): readonly RunnerProbe[] {
  return [{ pid: 1, startTime: 10, cpuSeconds, activity, tokensLeft }];
}

Deno.test("half a core over two looks is work; less, or a single look, says nothing", () => {
  const first = observe({}, [1], { probes: probe(10), atMs: 0 });
  assert.equal(first[1]?.working, null);
  assert.match(observe(first, [1], { probes: probe(10.125), atMs: 250 })[1]?.working ?? "", /0\.5 CPU cores/);
  assert.equal(observe(first, [1], { probes: probe(10.12), atMs: 250 })[1]?.working, null);
});

Deno.test("two looks in quick succession are one: the tick is 10 ms", () => {
  const first = observe({}, [1], { probes: probe(10), atMs: 0 });
  const soon = observe(first, [1], { probes: probe(10.02), atMs: 20 });
  assert.equal(soon[1]?.working, null);
  const later = observe(soon, [1], { probes: probe(10.5), atMs: 250 });
  assert.equal(later[1]?.cores, 2, "measured from the first of them");
});

Deno.test("a process that is gone, or can't be read any more, isn't working by what it did before", () => {
  const first = observe({}, [1], { probes: probe(10), atMs: 0 });
  const busy = observe(first, [1], { probes: probe(11), atMs: 250 });
  assert.notEqual(busy[1]?.working, null);
  assert.equal(observe(busy, [1], { probes: probe(null), atMs: 500 })[1]?.working, null);
});

Deno.test("its own word comes first, and an idle word is no work", () => {
  assert.match(observe({}, [1], { probes: probe(1, "busy"), atMs: 0 })[1]?.working ?? "", /answering/);
  const busy = observe({}, [1], { probes: probe(1, "busy", 47), atMs: 0 });
  assert.match(busy[1]?.working ?? "", /47 tokens left/, "how long that may still take");
  assert.match(observe({}, [1], { probes: probe(1, "loading"), atMs: 0 })[1]?.working ?? "", /loading/);
  assert.equal(observe({}, [1], { probes: probe(1, "idle"), atMs: 0 })[1]?.working, null);
});

Deno.test("SM utilisation counts from 50 %, and a pid that isn't in the driver's figures did nothing", () => {
  const at = (pct: number) => observe({}, [1], { sm: reading(0, [], { smPctByPid: { 1: pct } }) })[1]?.working ?? null;
  assert.match(at(50) ?? "", /50 %/);
  assert.equal(at(49), null);
  const before = observe({}, [1], { sm: reading(0, [], { smPctByPid: { 1: 90 } }) });
  assert.equal(observe(before, [1], { sm: reading(0, [], { smPctByPid: { 2: 90 } }) })[1]?.working, null);
});

Deno.test("only the runners that are asked about are kept", () => {
  const both = observe({}, [1, 2], { probes: probe(1), atMs: 0 });
  assert.deepEqual(Object.keys(observe(both, [2], {})), ["2"]);
});
