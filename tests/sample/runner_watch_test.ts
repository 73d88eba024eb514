/** Ollama's children, four times a second: who comes, who goes, and who is no runner. */
import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Log } from "../../lib/model/ports.ts";
import type { ProcessId, Runner } from "../../lib/model/tenants.ts";
import { RUNNER_WATCH_MS, watchRunners } from "../../lib/sample/runner_watch.ts";
import { ARGS, BLOB, FakeProc } from "./fake_proc.ts";

const SERVER = 500;
const silent: Log = { debug() {}, info() {}, warn() {}, error() {} };

async function stage(server: () => ProcessId | null = () => ({ pid: SERVER, startTime: SERVER })) {
  const clock = new LabClock();
  const proc = new FakeProc();
  proc.put(SERVER, { name: "ollama", args: ARGS.ollamaServe });
  const changes: (readonly Runner[])[] = [];
  const watch = watchRunners({ proc, clock, log: silent, server, onChange: (runners) => changes.push(runners) });
  const look = () => clock.advance(RUNNER_WATCH_MS);
  await look();
  return { proc, changes, look, watch, pids: () => changes.at(-1)?.map(({ pid }) => pid) ?? [] };
}

Deno.test("a runner that comes and one that goes are told of once each", async () => {
  const { proc, changes, look, pids } = await stage();
  proc.put(601, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  assert.deepEqual(pids(), [601]);
  assert.equal(changes[0]?.[0]?.blob, BLOB);
  await look();
  proc.put(602, { parentPid: SERVER, name: "llama-server", args: ARGS.llamaServer });
  await look();
  assert.deepEqual(pids(), [601, 602]);
  proc.gone(601);
  await look();
  assert.deepEqual(pids(), [602]);
  assert.equal(changes.length, 3);
});

Deno.test("for some ms after the fork a child shows its server's command line: it is looked at again", async () => {
  const { proc, look, pids } = await stage();
  proc.put(601, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaServe });
  await look();
  assert.deepEqual(pids(), []);
  proc.put(601, { args: ARGS.ollamaRunner });
  await look();
  assert.deepEqual(pids(), [601]);
});

Deno.test("a dying runner has no command line any more, and is still there; a zombie isn't", async () => {
  const { proc, changes, look, pids } = await stage();
  proc.put(601, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  proc.put(601, { args: [], state: "D" });
  await look();
  assert.equal(changes.length, 1);
  proc.put(601, { state: "Z" });
  await look();
  assert.deepEqual(pids(), []);
  assert.equal(changes.length, 2);
});

Deno.test("who is no runner: discovery children, strangers, another server's, and a pid that was used again", async () => {
  const { proc, changes, look, pids } = await stage();
  proc.put(601, { parentPid: SERVER, name: "llama-server", args: ARGS.discovery });
  proc.put(602, { parentPid: SERVER, name: "llama-server", args: ARGS.listDevices });
  proc.put(603, { parentPid: 1, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  assert.deepEqual(changes, []);
  proc.put(604, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  assert.deepEqual(pids(), [604]);
  proc.put(604, { startTime: 9_999 });
  await look();
  await look();
  const last = changes.at(-1) ?? [];
  assert.deepEqual(last.map(({ pid, startTime }) => [pid, startTime]), [[604, 9_999]]);
});

Deno.test("the server restarts: the old one's runners are gone, the new one's are found", async () => {
  let server: ProcessId | null = { pid: SERVER, startTime: SERVER };
  const { proc, look, pids } = await stage(() => server);
  proc.put(601, { parentPid: SERVER, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  proc.gone(601);
  proc.gone(SERVER);
  proc.put(700, { name: "ollama", args: ARGS.ollamaServe });
  proc.put(701, { parentPid: 700, name: "ollama", args: ARGS.ollamaRunner });
  await look();
  assert.deepEqual(pids(), []);
  server = { pid: 700, startTime: 700 };
  await look();
  assert.deepEqual(pids(), [701]);
});
