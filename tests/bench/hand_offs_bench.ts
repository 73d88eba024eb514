/** 200 random hand-offs on wall time, through the nvml Worker, with a third process allocating and freeing meanwhile. */
import { systemClock } from "../../lib/system/clock.ts";
import { stderrLog } from "../../lib/system/log.ts";
import { connectGpu } from "../../lib/workers/nvml_client.ts";
import { playHandOffs, watchedStore } from "../hand_offs/hand_offs.ts";
import { openLabHouse } from "../hand_offs/lab_house.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";

const ROUNDS = 200;
const SEED = 23;

export const bench: Bench = {
  name: "hand_offs",
  about: "how far the confirmation lags the lab's driver over random hand-offs, beside a third process",
  async measure(): Promise<readonly Figure[]> {
    const clock = systemClock();
    const settle = <T>(promise: Promise<T>) => promise;
    const { store, said } = watchedStore(clock);
    const log = stderrLog({ level: "error", format: "text" });
    await using lab = await openLabHouse({
      clock,
      store,
      settle,
      seed: SEED,
      gpu: (box) =>
        connectGpu({
          source: { kind: "simulated", table: box.table.buffer },
          choice: { uuid: null, index: 0 },
          clock,
          log,
        }),
    });
    const pass = (ms: number) => clock.sleep(ms);
    const handOffs = await playHandOffs({ box: lab.box, rounds: ROUNDS, seed: SEED, said, settle, pass });
    const released = handOffs.filter((handOff) => handOff.outcome === "released");
    const lags = released.map(({ saidAtMs, freedAtMs }) => freedAtMs === null ? -Infinity : saidAtMs - freedAtMs);
    const n = handOffs.length;
    return [
      { name: "released", value: released.length, unit: "of 200", bar: { atLeast: ROUNDS }, n },
      {
        name: "said before the driver freed it",
        value: lags.filter((ms) => ms < 0).length,
        unit: "",
        bar: { atMost: 0 },
        n,
      },
      { name: "lag, median", value: median(lags), unit: "ms", bar: { atMost: 3 }, n },
      { name: "lag, p95", value: quantile(lags, 0.95), unit: "ms", bar: { atMost: 10 }, n },
    ];
  },
};
