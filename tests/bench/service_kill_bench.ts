/** The whole service killed at 100 random moments while it sets a stub card; then its unit's ExecStopPost, or its next start. */
import { type ServiceKill, StubService } from "../e2e/stub_service.ts";
import type { Bench, Figure } from "../tasks/figures.ts";

const KILLS = 100;
/** Lives of one state folder and card; then others begin from nothing. */
const LIVES = 25;

export const bench: Bench = {
  name: "service_kill",
  about: "kill -9 of the whole service while profiles, fans and governor act, then restore --scope journal or a start",
  async measure(): Promise<readonly Figure[]> {
    const kills: ServiceKill[] = [];
    while (kills.length < KILLS) {
      await using stub = await StubService.open();
      await stub.start();
      for (let life = 0; life < LIVES; life += 1) {
        const seed = (kills.length + 1) * 7_919;
        kills.push(await stub.round(seed, kills.length % 2 === 0 ? "restore" : "start"));
      }
    }
    const count = (isSo: (kill: ServiceKill) => boolean) => kills.filter(isSo).length;
    const figure = (name: string, value: number, bar: Figure["bar"], n = KILLS): Figure => ({
      name,
      value,
      unit: `of ${n}`,
      bar,
      n,
    });
    const half = KILLS / 2;
    const left = (by: ServiceKill["by"]) => count((kill) => kill.by === by && kill.leftChanged);
    return [
      figure("found changed after the kill", count(({ foundChanged }) => foundChanged), { atLeast: 30 }),
      figure("left changed after restore --scope journal", left("restore"), { atMost: 0 }, half),
      figure("left changed after the next start", left("start"), { atMost: 0 }, half),
      figure("untouched levers moved", count(({ untouchedMoved }) => untouchedMoved), { atMost: 0 }),
      figure("unclean ends that the next start didn't tell", count(({ untold }) => untold), { atMost: 0 }),
    ];
  },
};
