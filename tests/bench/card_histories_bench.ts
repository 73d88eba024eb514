/** The card's promises over many random histories: inside the limits, cooldowns kept, blind and end restore, replayable. */
import { playCardHistory } from "../decide/card_histories.ts";
import type { Bench, Figure } from "../tasks/figures.ts";

const RUNS = 2_000;
const STEPS = 300;

export const bench: Bench = {
  name: "card_histories",
  about: `${RUNS} seeded histories of ${STEPS} events, every promise checked after each event`,
  measure(): Promise<readonly Figure[]> {
    const met = { writes: 0, climbs: 0, blinds: 0, switches: 0, reverts: 0 };
    let kept = 0;
    for (let seed = 10_000; seed < 10_000 + RUNS; seed++) {
      const figures = playCardHistory(seed, STEPS);
      kept++;
      for (const [name, count] of Object.entries(figures)) met[name as keyof typeof met] += count; // its own keys
    }
    const seen = Object.entries(met).map(([name, value]): Figure => ({
      name: `${name} met`,
      value,
      unit: "",
      bar: { atLeast: RUNS / 2 },
      n: RUNS,
    }));
    return Promise.resolve([
      { name: "histories that keep every promise", value: kept, unit: "", bar: { atLeast: RUNS }, n: RUNS },
      ...seen,
    ]);
  },
};
