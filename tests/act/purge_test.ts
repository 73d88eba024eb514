import assert from "node:assert/strict";
import { freeWhenQuiet } from "../../lib/act/purge.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { ComfyApi, ComfyQueue } from "../../lib/model/ports.ts";

const EMPTY: ComfyQueue = { running: [], pending: [] };

/** A ComfyUI that answers each queue read after so many milliseconds, and notes when `/free` came. */
function comfyThat(clock: LabClock, reads: readonly { readonly queue: ComfyQueue; readonly ms: number }[]) {
  const calls: string[] = [];
  let next = 0;
  const startMs = clock.monotonicMs();
  const api: ComfyApi = {
    url: "http://127.0.0.1:8188",
    isRemote: false,
    stats: () => Promise.reject(new Error("not asked for here")),
    completion: () => Promise.resolve(null),
    interrupt: () => Promise.resolve(),
    models: () => Promise.resolve([]),
    async queue(signal) {
      const read = reads[Math.min(next++, reads.length - 1)];
      assert.ok(read);
      calls.push(`queue@${clock.monotonicMs() - startMs}`);
      await clock.sleep(read.ms, signal);
      return read.queue;
    },
    free() {
      calls.push(`free@${clock.monotonicMs() - startMs}`);
      return Promise.resolve();
    },
  };
  return { api, calls };
}

async function run(reads: Parameters<typeof comfyThat>[1]) {
  const clock = new LabClock();
  const { api, calls } = comfyThat(clock, reads);
  const reply = freeWhenQuiet(api, clock, new AbortController().signal);
  await clock.advance(1_000);
  return { reply: await reply, calls };
}

Deno.test("/free goes out right after two empty, prompt reads, 100 ms apart", async () => {
  const { reply, calls } = await run([{ queue: EMPTY, ms: 1 }]);
  assert.equal(reply.kind, "sent");
  assert.deepEqual(calls, ["queue@0", "queue@101", "free@102"]);
});

for (
  const [name, queue] of [
    ["running", { running: ["a"], pending: [] }],
    ["pending", { running: [], pending: ["b"] }],
  ] as const
) {
  Deno.test(`a ${name} prompt in either read: /free is not sent`, async () => {
    const first = await run([{ queue, ms: 1 }]);
    const second = await run([{ queue: EMPTY, ms: 1 }, { queue, ms: 1 }]);
    for (const { reply, calls } of [first, second]) {
      assert.equal(reply.kind, "occupied");
      assert.ok(!calls.some((call) => call.startsWith("free")));
    }
  });
}

Deno.test("a read slower than 50 ms means garbage collection, in which /free gets lost: it is not sent", async () => {
  const { reply, calls } = await run([{ queue: EMPTY, ms: 1 }, { queue: EMPTY, ms: 51 }]);
  assert.deepEqual(reply, { kind: "slow", slowestMs: 51 });
  assert.ok(!calls.some((call) => call.startsWith("free")));
});

Deno.test("a server that fails is a result, not an exception", async () => {
  const clock = new LabClock();
  const { api } = comfyThat(clock, [{ queue: EMPTY, ms: 1 }]);
  const broken: ComfyApi = { ...api, queue: () => Promise.reject(new Error("connection reset")) };
  const reply = await freeWhenQuiet(broken, clock, new AbortController().signal);
  assert.deepEqual(reply, { kind: "failed", message: "connection reset" });
});
