/**
 * What HyperSwap adds to a switch that needs no eviction, on wall time: the same load asked of the lab's Ollama directly
 * and through the house, in turns.
 */
import { systemClock } from "../../lib/system/clock.ts";
import { stderrLog } from "../../lib/system/log.ts";
import { labModel } from "../../lib/lab/ollama_models.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import type { Gpu } from "../../lib/model/ports.ts";
import { GIB } from "../../lib/model/units.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";

const PAIRS = 50;
const SEED = 31;
const MODEL = "tiny:latest";
const KEEP_ALIVE = "30m";
/** Until the release was seen by `/api/ps` and by a sample: both sides find the same empty card. */
const REST_MS = 60;

export const bench: Bench = {
  name: "switch",
  about: "a switch that needs no eviction, through HyperSwap, beside asking the lab's Ollama directly",
  async measure(): Promise<readonly Figure[]> {
    const clock = systemClock();
    const log = stderrLog({ level: "error", format: "text" });
    let card: Gpu | null = null;
    const openCard = { choice: { uuid: null, index: 0 }, clock, log };
    await using lab = await openLabHouse({
      clock,
      store: memoryStore(),
      settle: (promise) => promise,
      seed: SEED,
      policy: { needs: { [MODEL]: GIB } },
      machine: { ollamaModels: [labModel({ name: MODEL, blobBytes: 22e6, bufferBytes: 20e6, kvBytesPerToken: 0 })] },
      gpu: (box) => card = connectGpu({ ...openCard, source: { kind: "simulated", table: box.table.buffer } }),
    });
    const { box, house } = lab;
    const ask = async (body: Record<string, unknown>): Promise<void> => {
      const response = await fetch(`${box.ollama.url}/api/generate`, { method: "POST", body: JSON.stringify(body) });
      const text = await response.text();
      if (!response.ok) throw new Error(`Ollama answered ${response.status}: ${text}`);
    };
    const readBack: number[] = [];
    const onTheWay: number[] = [];
    // The very request that a switch makes: one token, with a prompt that no cache knows.
    const options = { num_predict: 1 };
    const direct = () =>
      ask({ model: MODEL, prompt: `${clock.uuid()} ping`, stream: false, options, keep_alive: KEEP_ALIVE });
    const through = async () => {
      const request = { model: MODEL, keepAlive: KEEP_ALIVE, prompt: null, operation: "switch-model" };
      const call = { signal: new AbortController().signal, progress: () => {} };
      const { yielded, purged, alreadyResident, totalMs, phases } = await house.services.arbitration.switchModel(
        request,
        call,
      );
      if (yielded !== null || purged !== null) throw new Error("It made room, though there was enough");
      if (alreadyResident) throw new Error("It was resident already: nothing was loaded");
      const { loadMs, answerMs, readBackMs } = phases;
      readBack.push(readBackMs ?? 0);
      onTheWay.push(totalMs - (loadMs ?? 0) - (answerMs ?? 0) - (readBackMs ?? 0));
    };
    const timed = async (run: () => Promise<void>): Promise<number> => {
      const startMs = clock.monotonicMs();
      await run();
      const tookMs = clock.monotonicMs() - startMs;
      await ask({ model: MODEL, keep_alive: 0 });
      while (box.ollama.runners.length > 0) await clock.sleep(20);
      await clock.sleep(REST_MS);
      return tookMs;
    };
    const hopMs: number[] = [];
    const control = async () => {
      const startMs = clock.monotonicMs();
      await card?.read();
      hopMs.push(clock.monotonicMs() - startMs);
    };
    const pairs = await measurePairs({
      direct: () => timed(direct),
      through: async () => {
        await control();
        return await timed(through);
      },
    });
    const part = (name: string, values: readonly number[]): Figure => ({
      name: `of it: ${name}, median`,
      value: median(values),
      unit: "ms",
      bar: null,
      n: values.length,
    });
    return [...figures(pairs), part("reading back", readBack), part("to Ollama and back", onTheWay), {
      name: "beside it: one reading through the driver's thread, median",
      value: median(hopMs),
      unit: "ms",
      bar: null,
      n: hopMs.length,
      note: "a switch waits for one when its load has ended, and for /api/ps",
    }];
  },
};

interface Pair {
  readonly directMs: number;
  readonly throughMs: number;
}

/** In turns, so that neither side always goes first. */
async function measurePairs(
  sides: { readonly direct: () => Promise<number>; readonly through: () => Promise<number> },
): Promise<readonly Pair[]> {
  const pairs: Pair[] = [];
  for (let n = 0; n < PAIRS; n++) {
    if (n % 2 === 0) {
      const directMs = await sides.direct();
      pairs.push({ directMs, throughMs: await sides.through() });
    } else {
      const throughMs = await sides.through();
      pairs.push({ directMs: await sides.direct(), throughMs });
    }
  }
  return pairs;
}

function figures(pairs: readonly Pair[]): readonly Figure[] {
  const n = pairs.length;
  const more = pairs.map(({ directMs, throughMs }) => throughMs - directMs);
  const [directMs, throughMs] = [
    median(pairs.map((pair) => pair.directMs)),
    median(pairs.map((pair) => pair.throughMs)),
  ];
  return [
    { name: "directly, median", value: directMs, unit: "ms", bar: null, n },
    { name: "through HyperSwap, median", value: throughMs, unit: "ms", bar: null, n },
    { name: "added, median of the pairs", value: median(more), unit: "ms", bar: { atMost: 10 }, n },
    { name: "added, p95", value: quantile(more, 0.95), unit: "ms", bar: null, n },
  ];
}
