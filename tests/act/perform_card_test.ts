import assert from "node:assert/strict";
import { CardPerformer } from "../../lib/act/perform_card.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { CardControl, CardEvent, LeverReport } from "../../lib/model/card.ts";
import type { Log, Proc } from "../../lib/model/ports.ts";
import type { CardWrite, TuneEvent, TuneReply, TuningStore } from "../../lib/model/tuning.ts";
import { memoryStore } from "../../lib/record/memory_store.ts";
import { tuningMemory } from "../../lib/record/tuning_file.ts";
import { cardState, LIMITS, report } from "../decide/card_world.ts";

const write = (watts: number): CardWrite => ({
  setting: { power_limit_w: watts },
  reason: { by: "operator", profile: null, text: "asked" },
});

/** A performer over a card that a test answers for, call by call. */
function stage({ book = tuningMemory(), isAway = false }: { book?: TuningStore; isAway?: boolean } = {}) {
  const calls: string[] = [];
  const events: TuneEvent[] = [];
  const replies: TuneReply[] = [];
  const held: (() => void)[] = [];
  let onNews: (event: CardEvent) => void = () => {};
  const away = () => isAway ? Promise.reject(new Error("the card is lost")) : Promise.resolve();
  const control: CardControl = {
    limits: () => away().then(() => LIMITS),
    state: () => away().then(() => cardState()),
    apply: (setting) => {
      calls.push(`apply ${setting.power_limit_w}`);
      const reports: readonly LeverReport[] = [report("power_limit_w", setting.power_limit_w ?? "stock")];
      return new Promise((resolve) => held.push(() => resolve(reports)));
    },
    restore: async (scope) => {
      await away();
      calls.push(`restore ${scope}`);
      return { scope, levers: [], uncleanEnd: { atMs: 1, profile: "comfy" }, journalProblem: null };
    },
    forgetUncleanEnd: () => Promise.resolve(void calls.push("forget")),
    watchEvents: (listen) => {
      onNews = listen;
      return { stop: () => void calls.push("deaf") };
    },
  };
  const log: Log = { debug() {}, info() {}, warn() {}, error: (text) => void calls.push(`error: ${text}`) };
  const process = { pid: 7, startTime: 1, parentPid: 1, state: "S", args: [], exe: null, cwd: null, cgroup: null };
  const proc: Proc = {
    read: () => "",
    process: () => null,
    pids: () => [7, 8],
    list: () => [{ ...process, name: "lactd", cpuTicks: 0 }, { ...process, pid: 8, name: "bash", cpuTicks: 0 }],
    listeners: () => [],
    ticksPerSecond: 100,
  };
  const performer = new CardPerformer({
    clock: new LabClock(),
    log,
    control,
    proc,
    store: memoryStore(),
    book,
    send: (event) => void events.push(event),
    resolve: (_id, reply) => void replies.push(reply),
    onRecorded: () => {},
  });
  const turn = () => new Promise<void>((resolve) => queueMicrotask(resolve));
  const turns = async () => {
    for (let count = 0; count < 20; count++) await turn();
  };
  const release = async () => {
    held.shift()?.();
    await turns();
  };
  return { performer, calls, events, replies, release, turns, news: (event: CardEvent) => onNews(event) };
}

Deno.test("opening undoes what an earlier life left before anything is read", async () => {
  const { performer, calls, events } = stage();
  performer.perform({ kind: "openCard" });
  await performer.settled();
  assert.deepEqual(calls, ["deaf", "restore journal"]);
  const [opened] = events;
  assert.deepEqual(opened?.type === "cardOpened" ? opened.uncleanEnd : null, { atMs: 1, profile: "comfy" });
});

Deno.test("a card that can't be reached is an event with the reason, not an exception", async () => {
  const { performer, events } = stage({ isAway: true });
  performer.perform({ kind: "openCard" });
  performer.perform({ kind: "restoreCard", generation: 1, scope: "all" });
  await performer.settled();
  assert.deepEqual(events.map((event) => event.type === "cardClosed" ? event.reason : event.type), [
    "the card is lost",
    "cardRestored",
  ]);
});

Deno.test("a restore waits for the write that has begun and drops those that haven't", async () => {
  const { performer, calls, events, release, turns } = stage();
  performer.perform({ kind: "applyCard", generation: 1, writes: [write(250), write(260)] });
  await turns();
  performer.perform({ kind: "restoreCard", generation: 2, scope: "all" });
  await turns();
  assert.deepEqual(calls, ["apply 250"]);
  await release();
  assert.deepEqual(calls, ["apply 250", "restore all"]);
  assert.deepEqual(events.map(({ type }) => type), ["cardRestored"]);
});

Deno.test("programs that are known to set cards are named with a read-back", async () => {
  const { performer, events } = stage();
  performer.perform({ kind: "readCard" });
  await performer.settled();
  assert.deepEqual(events.map((event) => event.type === "cardRead" ? event.suspects : null), [["lactd (pid 7)"]]);
});

Deno.test("done is said once it is kept; the unclean end is forgotten after that", async () => {
  const { performer, calls, replies } = stage();
  performer.perform({ kind: "keepBook", book: { profiles: [], quarantine: [] }, forgetsUncleanEnd: true });
  performer.perform({ kind: "answerTuning", requestId: "r1", reply: { kind: "done", message: "Saved", levers: [] } });
  assert.deepEqual(replies, []);
  await performer.settled();
  assert.deepEqual([calls, replies.length], [["deaf", "forget"], 1]);
});

Deno.test("a book that can't be kept is told to whoever asked, and the unclean end isn't forgotten", async () => {
  const book: TuningStore = { ...tuningMemory(), save: () => Promise.reject(new Error("disk full")) };
  const { performer, calls, replies } = stage({ book });
  performer.perform({ kind: "keepBook", book: { profiles: [], quarantine: [] }, forgetsUncleanEnd: true });
  performer.perform({ kind: "answerTuning", requestId: "r1", reply: { kind: "done", message: "Saved", levers: [] } });
  await performer.settled();
  const [reply] = replies;
  assert.match(reply?.kind === "refused" ? reply.message : "", /^Saved, but it can't be kept: disk full$/);
  assert.deepEqual(calls, ["deaf", "error: Cannot keep the profiles"]);
});

Deno.test("what happens to the card by itself is an event", () => {
  const { events, news } = stage();
  news({ kind: "xid", atMs: 0, code: 79, source: "kmsg" });
  assert.equal(events[0]?.type, "cardNews");
});
