import assert from "node:assert/strict";
import type { Proc } from "../../lib/model/ports.ts";
import { type TenantProcesses, tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";
import { classifyOllamaFailure } from "../../lib/upstream/ollama_failures.ts";
import { isSameModel } from "../../lib/model/model_names.ts";
import { clause, eventually, type Subject } from "./subject.ts";

export interface OllamaSubject extends Subject {
  /** Where the server's processes show. */
  readonly proc: Proc;
}

const LIVE = new AbortController().signal;

/** Held against every Ollama there is: what the client promises, and what the rest of the house builds on. */
export function ollamaContract(
  options: {
    readonly against: string;
    /** Why there is none, or null. */
    readonly missing: string | null;
    readonly open: () => Promise<OllamaSubject>;
  },
): void {
  const holds = (title: string, check: (world: World) => Promise<void>) =>
    clause(options, title, async () => {
      await using subject = await options.open();
      const world = await enter(subject);
      await check(world);
      await leave(world);
    });

  holds("it has a version, and lists what is installed by its full name", async ({ api, subject, model }) => {
    assert.match(await subject.until(api.version(LIVE)), /^\d+\.\d+\.\d+/);
    const installed = await subject.until(api.tags(LIVE));
    const row = installed.find(({ name }) => name === model);
    assert.match(row?.digest ?? "", /^[0-9a-f]{64}$/);
    assert.ok((row?.sizeBytes ?? 0) > 1e6);
    assert.ok((row?.modifiedAtMs ?? 0) > Date.UTC(2023, 0, 1));
    for (const { name } of installed) assert.match(name, /:/);
  });

  holds("a load tells its duration, is listed, and is a child whose --model is the model's blob", async (world) => {
    const { api, subject, model } = world;
    const reply = await subject.until(api.load({ model, keepAlive: "5m", prompt: null }, LIVE));
    assert.ok((reply.loadDurationMs ?? 0) > 0);
    assert.ok((reply.totalDurationMs ?? 0) >= (reply.loadDurationMs ?? Infinity));
    const [row, ...others] = await subject.until(api.ps(LIVE));
    assert.deepEqual([row?.name, others], [model, []]);
    assert.equal(row?.digest, (await subject.until(api.tags(LIVE))).find(({ name }) => name === model)?.digest);
    assert.ok((row?.expiresAtMs ?? 0) > subject.clock.wallMs());
    const blobs = await subject.until(api.weightBlobs(model, LIVE));
    const { ollamaServer, runners, roles } = world.look();
    assert.notEqual(ollamaServer, null);
    assert.deepEqual(runners.map(({ blob, isOrphan }) => [blob, isOrphan]), [[blobs[0], false]]);
    assert.equal(roles.get(runners[0]?.pid ?? 0)?.bucket, "ollama");
    const { activity: word } = await subject.until(api.runnerActivity(runners[0]?.port ?? 0, LIVE));
    assert.ok(word === "idle" || word === null, `an idle runner says ${word}`);
  });

  holds("an unload is a receipt; the row and the process go after it", async (world) => {
    const { api, subject, model } = world;
    await subject.until(api.load({ model, keepAlive: -1, prompt: null }, LIVE));
    const [row] = await subject.until(api.ps(LIVE));
    assert.ok((row?.expiresAtMs ?? 0) > subject.clock.wallMs() + 200 * 365 * 86_400_000, "infinite is centuries away");
    await subject.until(api.unload(model, LIVE));
    await eventually(subject, async () => (await api.ps(LIVE)).length === 0, {
      limitMs: 10_000,
      what: "an empty list",
    });
    await eventually(subject, () => Promise.resolve(world.look().runners.length === 0), {
      limitMs: 10_000,
      what: "the runner's end",
    });
    await subject.until(api.unload(model, LIVE));
  });

  holds("a model that isn't there is unknown to every call", async ({ api, subject }) => {
    const nope = "hyperswap-contract-nope";
    for (
      const call of [
        (): Promise<unknown> => api.load({ model: nope, keepAlive: "5m", prompt: null }, LIVE),
        () => api.unload(nope, LIVE),
        () => api.weightBlobs(nope, LIVE),
      ]
    ) {
      await assert.rejects(subject.until(call()), (error: unknown) => classifyOllamaFailure(error) === "unknown_model");
    }
  });

  holds(
    "a name's case and length don't matter, and it is listed in its display form",
    async ({ api, subject, model }) => {
      const spelling = `registry.ollama.ai/library/${model.toUpperCase().replace(/:LATEST$/, "")}`;
      assert.ok(isSameModel(spelling, model));
      await subject.until(api.load({ model: spelling, keepAlive: "5m", prompt: null }, LIVE));
      assert.deepEqual((await subject.until(api.ps(LIVE))).map(({ name }) => name), [model]);
    },
  );

  holds("a given prompt is answered, at a rate when it was long enough to tell", async ({ api, subject, model }) => {
    const reply = await subject.until(api.load({ model, keepAlive: "5m", prompt: "Once upon a time" }, LIVE));
    assert.ok(reply.response.length > 0);
    assert.ok(reply.tokensPerSecond === null || (reply.tokensPerSecond > 0 && reply.tokensPerSecond < 1e5));
  });

  holds("a load that is hung up on is given up", async (world) => {
    const { api, subject, large } = world;
    const caller = new AbortController();
    const load = assert.rejects(api.load({ model: large, keepAlive: "5m", prompt: null }, caller.signal), {
      kind: "aborted",
    });
    await eventually(subject, () => Promise.resolve(world.look().runners.length > 0), {
      limitMs: 30_000,
      what: "a runner that loads",
    });
    assert.deepEqual(await subject.until(api.ps(LIVE)), [], "what loads isn't listed");
    caller.abort();
    await subject.until(load);
    await eventually(subject, () => Promise.resolve(world.look().runners.length === 0), {
      limitMs: 30_000,
      what: "the runner's end",
    });
  });

  holds("a bare number in quotes is a keep_alive, and nonsense is refused", async ({ api, subject, model }) => {
    await subject.until(api.load({ model, keepAlive: "300", prompt: null }, LIVE));
    await assert.rejects(subject.until(api.load({ model, keepAlive: "forever", prompt: null }, LIVE)), { status: 400 });
  });
}

interface World {
  readonly subject: OllamaSubject;
  readonly api: ReturnType<typeof connectOllama>;
  readonly tenants: TenantProcesses;
  /** One pass over its processes. */
  readonly look: () => ReturnType<TenantProcesses["read"]>;
  /** The smallest model that generates, and the largest. */
  readonly model: string;
  readonly large: string;
}

async function enter(subject: OllamaSubject): Promise<World> {
  const { clock, proc, url, port } = subject;
  const api = connectOllama({ url, clock });
  const tenants = tenantProcesses({ proc, clock, ollamaPort: port, comfyPort: null });
  const look = () => tenants.read({ isOllamaOnline: true, isComfyOnline: false, comfyArgv: [] });
  const usable = (await subject.until(api.tags(LIVE)))
    .filter(({ isRemote, family, format }) => !isRemote && family !== "bert" && format === "gguf")
    .toSorted((a, b) => a.sizeBytes - b.sizeBytes);
  const [model, large] = [usable[0]?.name, usable.at(-1)?.name];
  assert.ok(model !== undefined && large !== undefined, "the contract needs two installed models that generate");
  const world = { subject, api, tenants, look, model, large };
  await leave(world);
  return world;
}

/** Leaves nothing resident. */
async function leave({ subject, api }: World): Promise<void> {
  const resident = (await subject.until(api.ps(LIVE))).map(({ name }) => name);
  for (const name of resident) await subject.until(api.unload(name, LIVE));
  await eventually(subject, async () => (await api.ps(LIVE)).length === 0, { limitMs: 20_000, what: "an empty list" });
}
