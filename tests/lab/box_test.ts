import assert from "node:assert/strict";
import { type Box, type BoxOptions, openBox } from "../../lib/lab/box.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { startTraffic } from "../../lib/lab/traffic.ts";
import { answered } from "./scene.ts";

interface Opened extends AsyncDisposable {
  readonly clock: LabClock;
  readonly box: Box;
}

async function open(options: Partial<BoxOptions> = {}): Promise<Opened> {
  const dir = await Deno.makeTempDir({ prefix: "hyperswap-lab-" });
  const clock = new LabClock();
  const box = await openBox({ clock, dir, ...options });
  return {
    clock,
    box,
    async [Symbol.asyncDispose]() {
      await box[Symbol.asyncDispose]();
      await Deno.remove(dir, { recursive: true });
      assert.deepEqual(box.errors, []);
    },
  };
}

/** The table as a reader sees it. */
function seen(box: Box) {
  const nvml = box.table.open();
  const rows = [...nvml.processes(1n, "compute"), ...nvml.processes(1n, "graphics")];
  const listed = rows.reduce((sum, row) => sum + (row.usedBytes ?? 0), 0);
  return { used: nvml.memory(1n).usedBytes, listed, pids: rows.map((row) => row.pid) };
}

const between = (value: number, low: number, high: number) => assert.ok(value >= low && value <= high, `${value}`);

Deno.test("an opened box answers on both ports, with its processes where /proc and the card show them", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  assert.equal((await answered(clock, `${box.ollama.url}/api/version`)).text, '{"version":"0.33.0"}');
  assert.equal((await answered(clock, `${box.comfy.url}/prompt`)).status, 200);
  const names = box.processes.all.map((entry) => entry.name);
  assert.deepEqual(names.sort(), ["gnome-shell", "ollama", "pt_main_thread", "stt-relay"]);
  const { pids } = seen(box);
  const onCard = pids.map((pid) => box.processes.get(pid)?.name).sort();
  assert.deepEqual(onCard, ["gnome-shell", "pt_main_thread", "stt-relay"]);
  assert.match(Deno.readTextFileSync(`${box.procRoot}/meminfo`), /^MemTotal: +65332031 kB$/m);
  const comfy = box.processes.get(box.comfy.pid ?? 0);
  assert.deepEqual(comfy?.args.slice(1), ["main.py", "--listen", "127.0.0.1", "--port", String(box.comfy.port)]);
});

Deno.test("device used is the processes and a constant share, whatever happens", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  box.thirdParty.start({ everyMs: [20, 80], bytes: [1e6, 400e6], mostBytes: 2e9 });
  const shares = new Set<number>();
  const ticks = clock.every(50, () => {
    const { used, listed } = seen(box);
    shares.add(used - listed);
  });
  await answered(clock, `${box.ollama.url}/api/generate`, { body: { model: "gemma3:12b" } });
  await answered(clock, `${box.ollama.url}/api/generate`, { body: { model: "gemma3:12b", keep_alive: 0 } });
  await clock.advance(2_000);
  ticks.stop();
  assert.deepEqual([...shares], [box.table.card.unaccountedBytes]);
  const moves = box.vram.log.filter((truth) => truth.pid === box.thirdParty.pid);
  assert.ok(moves.some((truth) => truth.kind === "freed") && moves.length > 20);
});

Deno.test("the same seed gives the same box, to the millisecond", async () => {
  const play = async (seed: number) => {
    await using scene = await open({ seed });
    const traffic = startTraffic(scene.box);
    await scene.clock.advance(12_000);
    traffic.stop();
    await scene.clock.settle();
    return scene.box.vram.log.map(({ atMs, kind, bytes }) => `${atMs} ${kind} ${bytes}`);
  };
  const [one, again, other] = [await play(3), await play(3), await play(4)];
  assert.ok(one.length > 50);
  assert.deepEqual(again, one);
  assert.notDeepEqual(other, one);
});

Deno.test("traffic is lively: a minute has several turns of chat and pictures, and nothing fails", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  const traffic = startTraffic(box);
  const loads = new Set<number>();
  const bursts: number[] = [];
  let wasBusy = false;
  const ticks = clock.every(100, () => {
    for (const runner of box.ollama.runners) loads.add(runner.pid);
    const isBusy = box.comfy.queueRemaining > 0;
    if (isBusy && !wasBusy) bursts.push(clock.monotonicMs());
    wasBusy = isBusy;
  });
  await clock.advance(60_000);
  ticks.stop();
  const { chats, prompts, failures } = traffic.counts;
  between(chats, 3, 20);
  between(prompts, 3, 12);
  assert.equal(failures, 0);
  between(bursts.length, 3, 8);
  assert.ok(loads.size >= 3);
  traffic.stop();
  await clock.settle();
  const idle = traffic.counts;
  await clock.advance(30_000);
  assert.deepEqual(traffic.counts, idle);
});

Deno.test("traffic outlives a server that goes away", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  const traffic = startTraffic(box);
  await clock.until(box.ollama.kill("SIGKILL"), { limitMs: 1_000 });
  await clock.advance(5_000);
  assert.ok(traffic.counts.failures > 0);
  await box.ollama.start();
  await clock.advance(60_000);
  assert.ok(traffic.counts.chats > 0);
  traffic.stop();
  await clock.settle();
});

Deno.test("sensors follow the load: power at once, warmth slowly, fans last, and back again", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  const nvml = box.table.open();
  const read = () => ({
    w: nvml.powerW(1n),
    c: nvml.temperatureC(1n),
    fan: nvml.fanPct(1n, 0),
    util: nvml.utilization(1n).gpuPct,
    mhz: nvml.clockMhz(1n, "graphics"),
    throttle: nvml.throttleReasons(1n),
  });
  await clock.advance(1_000);
  const cold = read();
  between(cold.w, 12, 18);
  assert.deepEqual([cold.fan, cold.util, cold.mhz, cold.throttle], [0, 0, 210, 1]);
  const graph = { "1": { class_type: "LabWork", inputs: { steps: 100, step_ms: 1_000 } } };
  await answered(clock, `${box.comfy.url}/prompt`, { body: { prompt: graph } });
  await clock.advance(5_000);
  const early = read();
  await clock.advance(85_000);
  const hot = read();
  between(early.w, 280, 320);
  between(early.c, cold.c + 2, hot.c - 15);
  between(hot.c, 68, 82);
  between(hot.fan, 40, 80);
  between(hot.mhz, 2_500, 2_800);
  await clock.advance(60_000);
  const later = read();
  between(later.w, 12, 18);
  between(later.c, cold.c, hot.c - 20);
  const pid = box.comfy.pid ?? 0;
  assert.equal(nvml.processUtilization(1n, 0).some((row) => row.pid === pid), false);
});

Deno.test("decoding draws less than diffusion, and is seen as the runner's own work", async () => {
  await using scene = await open();
  const { clock, box } = scene;
  const nvml = box.table.open();
  const body = { model: "qwen3:14b", prompt: "x", stream: false, options: { num_predict: 400 } };
  const running = answered(clock, `${box.ollama.url}/api/generate`, { body, limitMs: 30_000 });
  let mostW = 0;
  let sm: readonly { pid: number; smPct: number }[] = [];
  const ticks = clock.every(250, () => {
    mostW = Math.max(mostW, nvml.powerW(1n));
    const rows = nvml.processUtilization(1n, 0);
    if (rows.length > 0) sm = rows;
  });
  await running;
  ticks.stop();
  between(mostW, 200, 226);
  assert.deepEqual(sm.map((row) => row.pid), [box.ollama.runners[0]?.pid]);
  between(sm[0]?.smPct ?? 0, 90, 100);
});
