import assert from "node:assert/strict";
import type { ComfyCompletion, Proc } from "../../lib/model/ports.ts";
import { type ComfyWatch, watchComfy } from "../../lib/sample/comfy_watch.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { connectComfy } from "../../lib/upstream/comfy.ts";
import { clause, eventually, type Subject } from "./subject.ts";

/** A graph in the server's own form. */
export type Graph = Readonly<Record<string, unknown>>;

export interface ComfySubject extends Subject {
  readonly proc: Proc;
  /** A prompt of some 2 s that can be interrupted; `seed` makes it another one to the server's cache. */
  slowGraph(seed: number): Graph;
}

const LIVE = new AbortController().signal;

/** Done in milliseconds, with built-in nodes only. */
function quickGraph(seed: number): Graph {
  return {
    "1": { class_type: "EmptyImage", inputs: { width: 64, height: 64, batch_size: 1, color: seed } },
    "2": { class_type: "PreviewImage", inputs: { images: ["1", 0] } },
  };
}

/** Held against every ComfyUI there is: what the client and the watcher promise. */
export function comfyContract(
  options: {
    readonly against: string;
    /** Why there is none, or null. */
    readonly missing: string | null;
    readonly open: () => Promise<ComfySubject>;
  },
): void {
  const holds = (title: string, check: (world: World) => Promise<void>) =>
    clause(options, title, async () => {
      await using subject = await options.open();
      const world = await enter(subject);
      await check(world);
      await leave(world);
    });

  holds("it has a version and a command line by which its process is known", async ({ api, subject }) => {
    const stats = await subject.until(api.stats(LIVE));
    assert.match(stats.version ?? "", /^\d+\.\d+/);
    assert.ok(stats.argv.some((arg) => arg.endsWith("main.py")));
    const { proc, clock, port } = subject;
    const read = (comfyArgv: readonly string[], comfyPort: number) =>
      tenantProcesses({ proc, clock, ollamaPort: null, comfyPort })
        .read({ isOllamaOnline: false, isComfyOnline: true, comfyArgv }).comfyServer;
    const bySocket = read([], port);
    assert.notEqual(bySocket, null, "found by its listening socket");
    assert.deepEqual(read(stats.argv, 1), bySocket, "and by its command line, where the socket tells nothing");
  });

  holds("its queue is empty, its models are lists, and what it doesn't know is nothing", async ({ api, subject }) => {
    assert.deepEqual(await subject.until(api.queue(LIVE)), { running: [], pending: [] });
    assert.ok(Array.isArray(await subject.until(api.models("checkpoints", LIVE))));
    assert.ok(Array.isArray(await subject.until(api.models("unet", LIVE))));
    assert.deepEqual(await subject.until(api.models("no-such-folder", LIVE)), []);
    assert.equal(await subject.until(api.completion("no-such-prompt", LIVE)), null);
    await subject.until(api.interrupt("no-such-prompt", LIVE));
  });

  holds("what runs and what waits is told in its order, and an interrupt ends what runs", async (world) => {
    const { api, subject } = world;
    const ids = [];
    for (let seed = 1; seed <= 3; seed++) ids.push(await post(subject, subject.slowGraph(world.seed + seed)));
    await eventually(subject, async () => (await api.queue(LIVE)).running.length === 1, QUICKLY("a running prompt"));
    assert.deepEqual(await subject.until(api.queue(LIVE)), { running: [ids[0]], pending: ids.slice(1) });
    for (const id of ids) {
      await eventually(subject, async () => (await api.queue(LIVE)).running[0] === id, QUICKLY(`${id} running`));
      await subject.until(api.interrupt(id, LIVE));
      await eventually(subject, async () => (await api.completion(id, LIVE)) !== null, QUICKLY(`the end of ${id}`));
      assert.equal((await subject.until(api.completion(id, LIVE)))?.status, "interrupted");
    }
    assert.deepEqual((await subject.until(api.recent(3, LIVE))).map(({ promptId }) => promptId), ids);
  });

  holds("the watcher tells a prompt's start at once, its id, and its end from the history", async (world) => {
    await using watched = await watch(world);
    const { activity, completed, watch: watcher } = watched;
    const { subject } = world;
    const id = await post(subject, subject.slowGraph(world.seed));
    await eventually(subject, () => Promise.resolve(activity.length > 0), { limitMs: 1_000, what: "the activity" });
    await eventually(subject, () => Promise.resolve(watcher.state().runningPromptId === id), QUICKLY("the running id"));
    assert.equal(watcher.state().executing, true);
    await eventually(subject, () => Promise.resolve(completed.length > 0), { limitMs: 30_000, what: "the end" });
    assert.deepEqual(activity, [1, 0]);
    const [{ promptId, status, startedAtMs, endedAtMs }] = completed as [ComfyCompletion];
    assert.deepEqual([promptId, status], [id, "success"]);
    assert.ok(startedAtMs !== null && endedAtMs !== null && endedAtMs - startedAtMs > 500);
    assert.notEqual(watcher.state().idleSinceMs, null);
  });

  holds("the watcher tells the end of a prompt that is over before anyone could ask", async (world) => {
    await using watched = await watch(world);
    const id = await post(world.subject, quickGraph(world.seed));
    await eventually(world.subject, () => Promise.resolve(watched.completed.length > 0), QUICKLY("the end"));
    assert.deepEqual(watched.completed.map(({ promptId, status }) => [promptId, status]), [[id, "success"]]);
    assert.deepEqual(watched.activity, [1, 0]);
  });

  holds("a free is a receipt", async ({ api, subject }) => {
    await subject.until(api.free(LIVE));
  });
}

function QUICKLY(what: string): { readonly limitMs: number; readonly what: string } {
  return { limitMs: 5_000, what };
}

interface World {
  readonly subject: ComfySubject;
  readonly api: ReturnType<typeof connectComfy>;
  /** Unlike any run before, so that nothing comes from the server's cache. */
  readonly seed: number;
}

async function enter(subject: ComfySubject): Promise<World> {
  const { url, clock } = subject;
  const api = connectComfy({ url, clock });
  const world = { subject, api, seed: Math.floor(clock.random() * 2 ** 20) };
  await leave(world);
  return world;
}

/** Leaves it with nothing to do, and its garbage collected. */
async function leave({ subject, api }: World): Promise<void> {
  await eventually(subject, async () => {
    const { running, pending } = await api.queue(LIVE);
    return running.length + pending.length === 0;
  }, { limitMs: 60_000, what: "an empty queue" });
}

/** Queues a graph, as a client that isn't listening, and gives its id. */
async function post(subject: ComfySubject, prompt: Graph): Promise<string> {
  const body = JSON.stringify({ prompt, client_id: "hyperswap-contract" });
  const text = await subject.until(
    fetch(`${subject.url}/prompt`, { method: "POST", body }).then((reply) => reply.text()),
  );
  const { prompt_id: id } = JSON.parse(text);
  assert.equal(typeof id, "string", text);
  return id;
}

interface Watched extends AsyncDisposable {
  readonly watch: ComfyWatch;
  readonly activity: number[];
  readonly completed: ComfyCompletion[];
}

/** A watcher that is connected and has told what was there before. */
async function watch({ subject, api }: World): Promise<Watched> {
  const activity: number[] = [];
  const completed: ComfyCompletion[] = [];
  const watcher = watchComfy({
    api,
    clock: subject.clock,
    onActivity: ({ queueRemaining }) => activity.push(queueRemaining),
    onCompleted: (completion) => completed.push(completion),
  });
  const isReady = () => Promise.resolve(watcher.state().online && watcher.state().socket === "open");
  await eventually(subject, isReady, QUICKLY("a socket that is open"));
  // The baseline of the history is read after the first look at the queue.
  await subject.until(subject.clock.sleep(300));
  assert.deepEqual([activity, completed], [[0], []], "an idle server is told once");
  activity.length = 0;
  return {
    watch: watcher,
    activity,
    completed,
    async [Symbol.asyncDispose]() {
      watcher.stop();
      await subject.until(subject.clock.sleep(50));
    },
  };
}
