/** `deno task histories [RUNS] [SEED]`: random histories of the arbiter, shared out among threads, and what they met. */
import type { Counts } from "../decide/history_tally.ts";
import { STEPS } from "../decide/histories.ts";

const [RUNS, SEED] = [2_000, 20_261_201];

type Ended = { readonly counts: Counts } | { readonly failure: string };

function play(runs: number, seed: number): Promise<Ended> {
  const worker = new Worker(new URL("../decide/histories_worker.ts", import.meta.url), { type: "module" });
  return new Promise((resolve, reject) => {
    worker.onmessage = ({ data }: MessageEvent<Ended>) => resolve(data);
    worker.onerror = (event) => reject(new Error(event.message));
    worker.postMessage({ runs, seed });
  });
}

function numberOf(text: string | undefined, usual: number): number {
  const value = text === undefined ? usual : Number(text);
  if (!Number.isInteger(value) || value < 1) throw new RangeError(`Cannot take ${text} for a whole number above 0`);
  return value;
}

if (import.meta.main) {
  const [runs, seed] = [numberOf(Deno.args[0], RUNS), numberOf(Deno.args[1], SEED)];
  const threads = Math.min(runs, Math.max(1, navigator.hardwareConcurrency));
  const startMs = performance.now();
  const shares = Array.from({ length: threads }, (_, index) => Math.floor((runs + index) / threads));
  const ended = await Promise.all(shares.map((share, index) => play(share, seed + index)));
  const failures = ended.flatMap((one) => "failure" in one ? [one.failure] : []);
  const total: Counts = {};
  for (const one of ended) {
    if (!("counts" in one)) continue;
    for (const [name, count] of Object.entries(one.counts)) total[name] = (total[name] ?? 0) + count;
  }
  for (const [name, count] of Object.entries(total).sort(([a], [b]) => a.localeCompare(b))) {
    console.log(`${String(count).padStart(10)}  ${name}`);
  }
  for (const failure of failures) console.error(failure);
  const seconds = ((performance.now() - startMs) / 1_000).toFixed(1);
  console.log(
    `${total["histories"] ?? 0} histories of ${STEPS} events on ${threads} threads in ${seconds} s, seed ${seed}: ` +
      (failures.length === 0 ? "every promise kept" : "a promise is BROKEN"),
  );
  if (failures.length > 0) Deno.exit(1);
}
