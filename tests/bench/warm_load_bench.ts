/**
 * A real Ollama: a blob that was evicted, warmed by us, and loaded from RAM; beside the same load cold. Names the server
 * by HYPERSWAP_TEST_OLLAMA; the largest installed model is used.
 */
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import type { Catalogue } from "../../lib/model/catalogue.ts";
import { watchCatalogue } from "../../lib/sample/catalogue.ts";
import { openProc } from "../../lib/sample/proc.ts";
import { tenantProcesses } from "../../lib/sample/tenant_processes.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { openFiles } from "../../lib/system/files.ts";
import { portOf } from "../../lib/upstream/locality.ts";
import { connectOllama } from "../../lib/upstream/ollama.ts";
import { connectPageCache } from "../../lib/workers/page_cache_client.ts";
import { type Bench, type Figure, median } from "../tasks/figures.ts";

const PAIRS = 9;
const LIVE = new AbortController().signal;

export const bench: Bench = {
  name: "warm_load",
  about: "a real Ollama loads its largest model, evicted before each load; every other time warmed by us (pairs)",
  async measure() {
    const url = Deno.env.get("HYPERSWAP_TEST_OLLAMA") ?? "";
    return url === "" ? [missing()] : await measureLoads(url);
  },
};

function missing(): Figure {
  const note = "HYPERSWAP_TEST_OLLAMA is not set: no server to load with";
  return { name: "load_duration cold ÷ warmed", value: null, unit: "×", bar: null, n: 0, note };
}

interface Load {
  readonly isWarmed: boolean;
  readonly loadMs: number;
  readonly residentPct: number;
  /** How long our own reading took before it. */
  readonly warmMs: number;
  /** What the runner's process read from the disk, by the kernel's own account of it. */
  readonly diskBytes: number;
}

async function measureLoads(url: string): Promise<readonly Figure[]> {
  const clock = systemClock();
  using libc = openLibc();
  const ollama = connectOllama({ url, clock });
  const pageCache = connectPageCache({ clock });
  const proc = openProc(libc, "/proc");
  const catalogue = await readCatalogue({ clock, proc, port: portOf(url) });
  const entry = catalogue.entries.filter(({ source, isShadowed }) => source === "ollama" && !isShadowed)
    .toSorted((a, b) => (b.sizeBytes ?? 0) - (a.sizeBytes ?? 0))[0];
  if (entry === undefined) return [missing()];
  const unload = async () => {
    for (const { name } of await ollama.ps(LIVE)) await ollama.unload(name, LIVE);
    while ((await ollama.ps(LIVE)).length > 0 || runners().length > 0) await clock.sleep(50);
  };
  const runners = () =>
    tenantProcesses({ proc, clock, ollamaPort: portOf(url), comfyPort: null })
      .read({ isOllamaOnline: true, isComfyOnline: false, comfyArgv: [] }).runners;
  const loads: Load[] = [];
  try {
    for (let round = 0; round < PAIRS * 2; round++) {
      // Cold first in every other pair, so that a machine that gets busier favours neither.
      const isWarmed = (round % 4 === 1) || (round % 4 === 2);
      await unload();
      for (const path of entry.files) evict(path);
      let warmMs = 0;
      for (const path of isWarmed ? entry.files : []) {
        const { durationMs } = await pageCache.warm(path, {
          roots: catalogue.roots,
          bytesPerS: "auto",
          reserveBytes: 0,
        });
        warmMs += durationMs;
      }
      const figures = await pageCache.measure(entry.files, { roots: catalogue.roots });
      const share = figures[0]?.kind === "measured" ? figures[0].share : NaN;
      const reply = await ollama.load({ model: entry.name, keepAlive: "5m", prompt: null }, LIVE);
      const io = proc.read(`${runners()[0]?.pid}/io`);
      const diskBytes = Number(/^read_bytes: (\d+)$/m.exec(io)?.[1] ?? NaN);
      loads.push({ isWarmed, loadMs: reply.loadDurationMs ?? NaN, residentPct: share * 100, warmMs, diskBytes });
    }
    await unload();
  } finally {
    await pageCache.close();
  }
  return figuresOf(loads, entry.sizeBytes ?? 0);
}

function figuresOf(loads: readonly Load[], sizeBytes: number): readonly Figure[] {
  const of = (isWarmed: boolean, what: (load: Load) => number) =>
    median(loads.filter((load) => load.isWarmed === isWarmed).map(what)) ?? NaN;
  const cold = of(false, ({ loadMs }) => loadMs);
  const warmed = of(true, ({ loadMs }) => loadMs);
  const pairs = Array.from({ length: PAIRS }, (_, index) => {
    const pair = loads.slice(index * 2, index * 2 + 2);
    const loadMs = (isWarmed: boolean) => pair.find((load) => load.isWarmed === isWarmed)?.loadMs ?? NaN;
    return loadMs(false) / loadMs(true);
  });
  const ofSize = (diskBytes: number) => (diskBytes / sizeBytes) * 100;
  const note = `${(sizeBytes / 1e9).toFixed(2)} GB`;
  const info = { unit: "ms", bar: null, n: PAIRS };
  const pct = { unit: "%", n: PAIRS };
  return [
    { ...pct, name: "resident before a cold load", value: of(false, (load) => load.residentPct), bar: { atMost: 1 } },
    {
      ...pct,
      name: "resident before a warmed load",
      value: of(true, (load) => load.residentPct),
      bar: { atLeast: 99.5 },
    },
    {
      ...pct,
      name: "read from disk by the runner, cold",
      value: of(false, (load) => ofSize(load.diskBytes)),
      bar: { atLeast: 90 },
      note: "of the model's size",
    },
    {
      ...pct,
      name: "read from disk by the runner, warmed",
      value: of(true, (load) => ofSize(load.diskBytes)),
      bar: { atMost: 1 },
      note: "of the model's size",
    },
    { ...info, name: "load_duration cold", value: cold, note },
    { ...info, name: "load_duration warmed", value: warmed, note },
    { ...info, name: "our warm before it", value: of(true, (load) => load.warmMs), note },
    // Small models on a fast disk spend their time elsewhere (polling every 250 ms, set-up): shown, not held to a bar.
    { name: "load_duration cold ÷ warmed, median of pairs", value: median(pairs), unit: "×", bar: null, n: PAIRS },
  ];
}

function evict(path: string): void {
  using libc = openLibc();
  using calls = openPageCalls();
  const fd = libc.open(path, { flags: ["read"] });
  try {
    // Twice: what is on its way to the list of unused pages is missed by the first.
    calls.advise(fd, "dontNeed");
    calls.advise(fd, "dontNeed");
  } finally {
    libc.close(fd);
  }
}

async function readCatalogue(
  { clock, proc, port }: {
    readonly clock: ReturnType<typeof systemClock>;
    readonly proc: ReturnType<typeof openProc>;
    readonly port: number;
  },
): Promise<Catalogue> {
  const { ollamaServer, runners } = tenantProcesses({ proc, clock, ollamaPort: port, comfyPort: null })
    .read({ isOllamaOnline: true, isComfyOnline: false, comfyArgv: [] });
  const watch = watchCatalogue({
    clock,
    files: openFiles(),
    proc,
    settings: { ollamaStores: [], comfyFolders: [], comfyExtraFiles: [], linkTargets: [], home: null },
    hints: () => ({ ollamaServer, runners, comfyServer: null, isComfyOnline: false }),
    askFolders: () => Promise.resolve([]),
  });
  try {
    for (let tries = 0; watch.latest() === null && tries < 100; tries++) await clock.sleep(50);
    const catalogue = watch.latest();
    if (catalogue === null) throw new Error(`Cannot read the catalogue: ${watch.crash}`);
    return catalogue;
  } finally {
    watch.stop();
  }
}
