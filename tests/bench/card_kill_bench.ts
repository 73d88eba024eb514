/** 100 processes that set a stub card, each killed at a random moment; then what its unit's ExecStopPost does. */
import { type KillCount, killDriver } from "../act/kill_driver.ts";
import { type Bench, type Figure } from "../tasks/figures.ts";

const KILLS = 100;

export const bench: Bench = {
  name: "card_kill",
  about: "kill -9 while profiles, fans and governor act on the stub card, then restore --scope journal",
  async measure(): Promise<readonly Figure[]> {
    const counts: KillCount[] = [];
    for (let seed = 1; seed <= KILLS; seed++) counts.push(await killDriver({ seed: seed * 7_919, cards: 1 }));
    const sum = (pick: (count: KillCount) => number) => counts.reduce((total, count) => total + pick(count), 0);
    const n = counts.length;
    return [
      {
        name: "found changed after the kill",
        value: sum((it) => it.foundChanged),
        unit: "of 100",
        bar: { atLeast: 30 },
        n,
      },
      {
        name: "left changed after the restore",
        value: sum((it) => it.leftChanged),
        unit: "of 100",
        bar: { atMost: 0 },
        n,
      },
      { name: "untouched levers moved", value: sum((it) => it.untouchedMoved), unit: "of 100", bar: { atMost: 0 }, n },
      { name: "unclean ends not told", value: sum((it) => it.untold), unit: "of 100", bar: { atMost: 0 }, n },
    ];
  },
};
