/** 200 random hand-offs on wall time, through the nvml Worker, with a third process allocating and freeing meanwhile. */
import { systemClock } from "../../lib/system/clock.ts";
import { stderrLog } from "../../lib/system/log.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";
import { type HandOff, watchedStore } from "../hand_offs/hand_offs.ts";
import { openHouseOn } from "../hand_offs/lab_house.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";
import type { FromLab, ToLab } from "./hand_offs_lab.ts";

const ROUNDS = 200;
const SEED = 23;

export const bench: Bench = {
  name: "hand_offs",
  about: "how far the confirmation lags the lab's driver over random hand-offs, beside a third process",
  async measure(): Promise<readonly Figure[]> {
    const handOffs = await playedRounds();
    const released = handOffs.filter((handOff) => handOff.outcome === "released");
    const lags = released.map(({ saidAtMs, freedAtMs }) => freedAtMs === null ? -Infinity : saidAtMs - freedAtMs);
    const early = lags.filter((ms) => ms < 0).length;
    const n = handOffs.length;
    return [
      { name: "released", value: released.length, unit: "of 200", bar: { atLeast: ROUNDS }, n },
      { name: "said before the driver freed it", value: early, unit: "", bar: { atMost: 0 }, n },
      { name: "lag, median", value: median(lags), unit: "ms", bar: { atMost: 3 }, n },
      { name: "lag, p95", value: quantile(lags, 0.95), unit: "ms", bar: { atMost: 10 }, n },
    ];
  },
};

async function playedRounds(): Promise<readonly HandOff[]> {
  const clock = systemClock();
  const log = stderrLog({ level: "error", format: "text" });
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-lab-" });
  const lab = new Lab();
  try {
    const { site, table } = await lab.ask({ kind: "open", dir, seed: SEED }, "open");
    const gpu = connectGpu({ source: { kind: "simulated", table }, choice: { uuid: null, index: 0 }, clock, log });
    const store = watchedStore(clock, (said) => lab.tell({ kind: "said", said }));
    await using _open = await openHouseOn(site, { clock, store, gpu, settle: (promise) => promise });
    const { handOffs } = await lab.ask({ kind: "play", rounds: ROUNDS, seed: SEED }, "played");
    return handOffs;
  } finally {
    await lab.ask({ kind: "close" }, "closed").finally(() => lab.end());
    await Deno.remove(dir, { recursive: true });
  }
}

/** The thread with the box, asked one thing at a time. */
class Lab {
  readonly #worker = new Worker(new URL("./hand_offs_lab.ts", import.meta.url), { type: "module" });

  tell(message: ToLab): void {
    this.#worker.postMessage(message);
  }

  ask<K extends FromLab["kind"]>(message: ToLab, kind: K): Promise<Extract<FromLab, { kind: K }>> {
    const { promise, resolve, reject } = Promise.withResolvers<Extract<FromLab, { kind: K }>>();
    this.#worker.onmessage = ({ data }: MessageEvent<FromLab>) => {
      // The kind was compared just before, which the compiler can't follow through K.
      if (data.kind === kind) resolve(data as Extract<FromLab, { kind: K }>);
      else reject(new Error(`The lab answered "${data.kind}" instead of "${kind}"`));
    };
    this.#worker.onerror = (event) => {
      event.preventDefault();
      reject(new Error(`The lab failed: ${event.message}`));
    };
    this.tell(message);
    return promise;
  }

  end(): void {
    this.#worker.terminate();
  }
}
