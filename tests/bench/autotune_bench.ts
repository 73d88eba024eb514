/** Sweeps on the lab: what a card that gains, a flat one and a broken one are told to be, and what is left of the card. */
import type { SweepRequest, SweepResult } from "../../lib/model/autotune.ts";
import { FLAT_SILICON, type Silicon } from "../../lib/lab/pace.ts";
import { Random } from "../../lib/lab/random.ts";
import { openSweepScene, SWEEP, type SweepScene } from "../services/sweep_scene.ts";
import type { Bench, Figure } from "../tasks/figures.ts";

const SEEDS = [1, 2, 3, 4, 5, 6];
const NOISE = 0.004;
const CANCELS = 20;
/** What is published for maximum power on the measured card. */
const GAIN_PCT = 2.8;
const POWER: SweepRequest = { ...SWEEP, start: 280, stop: 370, step: 45 };

export const bench: Bench = {
  name: "autotune",
  about: "sweeps over the lab (noise ±0.4 %, levers that lag, seeds varied), on its clock",
  async measure(): Promise<readonly Figure[]> {
    const gains = await eachSeed({ noise: NOISE }, POWER);
    const flats = await eachSeed({ ...FLAT_SILICON, noise: NOISE }, POWER);
    const found = gains.map(({ gainPct }) => gainPct ?? 0);
    const claimed = flats.map(({ gainPct }) => Math.abs(gainPct ?? 0));
    return [
      figure(
        "a card that gains is found",
        share(gains, ({ end }) => end === "improved"),
        { atLeast: 100 },
        SEEDS.length,
      ),
      figure("its gain, furthest from the truth", furthest(found), { atMost: 0.6 }, SEEDS.length, "points"),
      figure("a flat card is called flat", share(flats, ({ end }) => end === "flat"), { atLeast: 100 }, SEEDS.length),
      figure("the most a flat card came out at", Math.max(...claimed), { atMost: 1 }, SEEDS.length),
      ...await decoding(),
      ...await locks(),
      ...await broken(),
      figure("cards off stock after a cancel", await cancels(), { atMost: 0 }, CANCELS, "cards"),
    ];
  },
};

async function eachSeed(
  silicon: Partial<Silicon>,
  request: SweepRequest,
  seeds: readonly number[] = SEEDS,
): Promise<readonly SweepResult[]> {
  const results: SweepResult[] = [];
  for (const seed of seeds) {
    await using scene = await openSweepScene({ seed, silicon });
    results.push(await scene.until(sweep(scene, request)));
    if (scene.offStock().length > 0) throw new Error(`Seed ${seed} left ${scene.offStock().join(", ")} off stock`);
  }
  return results;
}

function sweep(scene: SweepScene, request: SweepRequest, signal = new AbortController().signal): Promise<SweepResult> {
  return scene.house.services.autotune.sweep(request, { signal, progress: () => {} });
}

/** Ollama's decoding, bound by the memory's clock: an offset of 1,500 MHz is 750 MHz more of 11,251; power is nothing. */
async function decoding(): Promise<readonly Figure[]> {
  const ollama = { ...SWEEP, workload: "ollama" } as const;
  const offset = { ...ollama, knob: "mem_offset_mhz", start: 500, stop: 1_500, step: 500 } as const;
  const gains = await eachSeed({ noise: NOISE }, offset);
  const flats = await eachSeed({ noise: NOISE }, { ...ollama, start: 280, stop: 370, step: 45 });
  const truth = 750 / 11_251 * 100;
  return [
    figure(
      "ollama: a memory offset that gains is found",
      share(gains, ({ end, bestValue }) => end === "improved" && bestValue === 1_500),
      { atLeast: 100 },
      SEEDS.length,
    ),
    figure(
      "ollama: its gain, furthest from the truth",
      Math.max(...gains.map(({ gainPct }) => Math.abs((gainPct ?? 0) - truth))),
      { atMost: 0.6 },
      SEEDS.length,
      "points",
    ),
    figure("ollama: power is called flat", share(flats, ({ end }) => end === "flat"), { atLeast: 100 }, SEEDS.length),
  ];
}

/** Whole sweeps of both locks on both workloads: no lock beats none, and the one that holds back is never called best. */
async function locks(): Promise<readonly Figure[]> {
  const results: SweepResult[] = [];
  for (const knob of ["lock_core_mhz", "lock_mem_mhz"] as const) {
    for (const workload of ["ollama", "comfy"] as const) {
      results.push(...await eachSeed({ noise: NOISE }, { ...SWEEP, knob, workload, repeats: 2 }, SEEDS.slice(0, 2)));
    }
  }
  const { length } = results;
  return [figure("locks: called flat", share(results, ({ end }) => end === "flat"), { atLeast: 100 }, length)];
}

/** Each way a card can break, by the fastest stable value that is told and by what is left. */
async function broken(): Promise<readonly Figure[]> {
  let [stopped, left] = [0, 0];
  const ways = ["xid", "degenerate", "crash"] as const;
  for (const breakdown of ways) {
    await using scene = await openSweepScene({ silicon: { noise: NOISE, stableCoreOffsetMhz: 130, breakdown } });
    const request = { ...SWEEP, knob: "core_offset_mhz", start: 60, stop: 240, step: 60, repeats: 2 } as const;
    const result = await scene.until(sweep(scene, request));
    if (result.bestValue === 120 && result.stoppedBy?.startsWith("180 MHz") === true) stopped += 1;
    left += scene.offStock().length;
  }
  return [
    figure("unstable values that stop the climb", stopped / ways.length * 100, { atLeast: 100 }, ways.length),
    figure("levers off stock after an unstable value", left, { atMost: 0 }, ways.length, "levers"),
  ];
}

/** At moments that have nothing to do with what the sweep is at. */
async function cancels(): Promise<number> {
  const random = new Random(77);
  await using scene = await openSweepScene({ silicon: { noise: NOISE } });
  let left = 0;
  for (let at = 0; at < CANCELS; at += 1) {
    const abort = new AbortController();
    const answer = sweep(scene, POWER, abort.signal).then(() => "done", () => "cancelled");
    await scene.clock.advance(random.whole(1, 60_000));
    abort.abort();
    await scene.until(answer);
    if (scene.offStock().length > 0) left += 1;
  }
  return left;
}

function share(results: readonly SweepResult[], isSo: (result: SweepResult) => boolean): number {
  return results.filter(isSo).length / results.length * 100;
}

function furthest(gains: readonly number[]): number {
  return Math.max(...gains.map((gain) => Math.abs(gain - GAIN_PCT)));
}

function figure(name: string, value: number, bar: Figure["bar"], n: number, unit = "%"): Figure {
  return { name, value, unit, bar, n };
}
