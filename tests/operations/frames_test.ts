import assert from "node:assert/strict";
import fc from "fast-check";
import { applyFrame, diffStats, HISTORY_SHOWN } from "../../lib/operations/frames.ts";
import type { Frame } from "../../lib/operations/frames.ts";

/** What the wire makes of a value: the only equality that clients can see. */
function wire<T>(value: T): T {
  return JSON.parse(JSON.stringify(value));
}

const leaf = fc.oneof(
  fc.integer(),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
  fc.string(),
);
const key = fc.oneof(
  fc.constantFrom("a", "b", "a/b", "~", "~1", "", "0", "length", "__proto__"),
  fc.string({ maxLength: 3 }),
);
const { json } = fc.letrec<{ json: unknown }>((tie) => ({
  json: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie("json"), { maxLength: 4 }),
    fc.dictionary(key, tie("json"), { maxKeys: 4 }),
  ),
}));

/** Rows that are told apart by a name, in any order; now and then two of one name. */
const rows = fc.array(fc.record({ pid: fc.integer({ min: 0, max: 5 }), x: json, y: leaf }), { maxLength: 6 });

/** Histories as the service shows them: newest first, a head grows, old items are amended or cut. */
const histories = fc.array(
  fc.record({
    added: fc.integer({ min: 0, max: 60 }),
    amended: fc.integer({ min: 0, max: 49 }),
    keep: fc.integer({ min: 0, max: 60 }),
  }),
  { minLength: 1, maxLength: 8 },
).map((steps) => {
  let id = 0;
  let items: { id: number; margin: number | null }[] = [];
  return steps.map(({ added, amended, keep }) => {
    const fresh = Array.from({ length: added }, () => ({ id: ++id, margin: null })).reverse();
    items = [...fresh, ...items].slice(0, Math.min(keep, HISTORY_SHOWN));
    items = items.map((item, index) => (index === amended ? { ...item, margin: id } : item));
    return items;
  });
});

Deno.test("replaying the frames of any states gives each state, field for field", () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ x: json, y: json, rows, deep: fc.record({ rows }) }), { minLength: 1, maxLength: 6 }),
      histories,
      (states, lists) => {
        const sequence = states.map((state, at) => ({
          ...state,
          timestamp: 1000 + at / 10,
          revision: at + 1,
          history: lists[at % lists.length] ?? [],
        }));
        let seen: object | null = null;
        sequence.forEach((state, at) => {
          const previous = sequence[at - 1];
          const frame: Frame = previous === undefined
            ? { event: "snapshot", data: state }
            : { event: "patch", data: diffStats(previous, state) };
          seen = applyFrame(seen, wire(frame));
          assert.deepEqual(wire(seen), wire(state));
        });
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("nothing changed: the patch is a timestamp and a revision", () => {
  const state = { timestamp: 1, revision: 7, gpu: { used: 3, list: [{ a: 1 }, { a: 2 }] }, history: [{ id: 3 }] };
  assert.deepEqual(diffStats(state, { ...wire(state), timestamp: 2, revision: 8 }), { t: 2, r: 8 });
});

Deno.test("a field deep in a list costs its pointer; a new event costs itself", () => {
  const before = {
    timestamp: 1,
    revision: 1,
    processes: [{ pid: 1, name: "a rather long name", vram: 1 }, { pid: 2, name: "b rather long name", vram: 2 }],
    history: [{ id: 7, margin_ms: null }],
  };
  const after = {
    timestamp: 2,
    revision: 2,
    processes: [{ pid: 1, name: "a rather long name", vram: 1 }, { pid: 2, name: "b rather long name", vram: 3 }],
    history: [{ id: 8, margin_ms: null }, { id: 7, margin_ms: 12 }],
  };
  assert.deepEqual(diffStats(before, after), {
    t: 2,
    r: 2,
    set: { "/processes/1/vram": 3, "/history/1/margin_ms": 12 },
    prepend: { "/history": [{ id: 8, margin_ms: null }] },
  });
});

Deno.test("items that come, go and change places cost their numbers; what changed in them costs its pointer", () => {
  const row = (pid: number, vram: number) => ({ pid, name: "a name that is longer than its pointer", vram });
  const state = (timestamp: number, rows: readonly object[]) => ({
    ...{ timestamp, revision: timestamp, history: [] },
    gpu: { processes: rows },
  });
  const lists: [readonly object[], readonly unknown[], Record<string, unknown>?][] = [
    [[row(2, 7), row(3, 5)], [1, 2]],
    [[row(3, 5), row(1, 9), row(2, 7)], [2, 0, 1]],
    [[row(1, 9), row(4, 1), row(2, 7), row(3, 5)], [0, row(4, 1), 1, 2]],
    [[row(3, 6), row(1, 9)], [2, 0], { "/gpu/processes/0/vram": 6 }],
  ];
  for (const [rows, relist, set] of lists) {
    const [before, after] = [state(1, [row(1, 9), row(2, 7), row(3, 5)]), state(2, rows)];
    const patch = diffStats(before, after);
    assert.deepEqual(patch, {
      ...{ t: 2, r: 2, relist: { "/gpu/processes": relist } },
      ...(set === undefined ? {} : { set }),
    });
    assert.deepEqual(applyFrame<object>(before, wire({ event: "patch", data: patch })), after);
  }
  const doubled = state(3, [row(1, 9), row(1, 9), row(1, 8)]);
  const patch = diffStats(state(1, [row(1, 9)]), doubled);
  assert.equal(patch.relist, undefined, "two of one name can't be told apart");
  assert.deepEqual(applyFrame<object>(state(1, [row(1, 9)]), wire({ event: "patch", data: patch })), doubled);
});

Deno.test("pointers are escaped both ways, and a key is never taken for a path or a prototype", () => {
  const keys = ["a/b", "~1", "~0", "~", "/", "", "0", "__proto__"];
  const state = (value: number) => ({
    timestamp: value,
    revision: value,
    deep: Object.fromEntries(keys.map((name) => [name, { value, padding: "so long that fields are sent one by one" }])),
    history: [],
  });
  const patch = diffStats(state(1), state(2));
  assert.equal(Object.keys(patch.set ?? {}).length, keys.length);
  const replayed = applyFrame<object>(state(1), wire({ event: "patch", data: patch }));
  assert.equal(JSON.stringify(replayed), JSON.stringify(state(2)));
  assert.equal(Reflect.get({}, "value"), undefined);
});

Deno.test("what did not change keeps its identity, and the old state stays as it was", () => {
  const before = { timestamp: 1, revision: 1, gpu: { used: 1 }, ram: { used: 2 }, history: [] };
  const after = applyFrame<typeof before>(before, { event: "patch", data: { t: 2, r: 2, set: { "/gpu/used": 5 } } });
  assert.equal(after.ram, before.ram);
  assert.deepEqual(after.gpu, { used: 5 });
  assert.deepEqual(before, { timestamp: 1, revision: 1, gpu: { used: 1 }, ram: { used: 2 }, history: [] });
});

Deno.test("a patch before the first snapshot is refused", () => {
  assert.throws(() => applyFrame(null, { event: "patch", data: { t: 1, r: 1 } }), /before the first snapshot/);
});
