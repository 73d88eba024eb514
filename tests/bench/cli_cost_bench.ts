/**
 * What `hyperswap --json` costs beside a program of the same runtime that prints one line, whole process, in turns: from
 * source, and as a binary where one can be compiled.
 */
import { CannotCompile, compileBinary } from "../tasks/compile.ts";
import { type Bench, type Figure, median } from "../tasks/figures.ts";
import { ask, denort, ROOT, shippedDeno } from "../tasks/tools.ts";
import { FROM_SOURCE, type Program, RunningService, socketIn } from "../e2e/running_service.ts";

const PAIRS = 15;
const HELLO = 'console.log("hello");\n';

export const bench: Bench = {
  name: "cli_cost",
  about: "hyperswap --json beside a hello-world of the same runtime, whole process",
  async measure(): Promise<readonly Figure[]> {
    const folder = await Deno.makeTempDir({ prefix: "hyperswap_cost_" });
    try {
      await Deno.writeTextFile(`${folder}/main.js`, HELLO);
      await using _service = await RunningService.start(FROM_SOURCE, { command: "demo", folder });
      const flags = ["--json", "--socket", socketIn(folder)];
      const hello = { path: Deno.execPath(), args: ["run", "-A", `${folder}/main.js`] };
      return [
        ...await figures("the binary", await compiledPair(folder), flags),
        ...await figures("from source", { hello, program: FROM_SOURCE }, flags),
      ];
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
};

interface Pair {
  readonly hello: Program;
  readonly program: Program;
}

/** Null where there is no runtime to compile with. */
async function compiledPair(folder: string): Promise<Pair | null> {
  const [runtime, deno] = await Promise.all([denort(), shippedDeno()]);
  try {
    const path = await compileBinary();
    if (!("path" in runtime && "path" in deno)) return null;
    const made = await ask(deno.path, [
      ...["compile", "-q", "--no-check", "--no-config", "--no-lock", "--no-npm", "--no-remote", "--allow-read"],
      ...["-o", `${folder}/hello`, "main.js"],
    ], { cwd: folder, env: { DENORT_BIN: runtime.path, DENO_TLS_CA_STORE: "system" } });
    if (made.code !== 0) throw new Error(`Cannot compile the hello-world: ${made.stderr}`);
    return { hello: { path: `${folder}/hello`, args: [] }, program: { path, args: [] } };
  } catch (error) {
    if (error instanceof CannotCompile) return null;
    throw error;
  }
}

async function figures(name: string, pair: Pair | null, flags: readonly string[]): Promise<readonly Figure[]> {
  if (pair === null) return [];
  const ratios: number[] = [];
  const helloMs: number[] = [];
  const programMs: number[] = [];
  for (let at = -1; at < PAIRS; at++) {
    // In turns, so that neither always goes first.
    const first = at % 2 === 0;
    const before = first ? await timed(pair.hello, []) : 0;
    const own = await timed(pair.program, flags);
    const hello = first ? before : await timed(pair.hello, []);
    // The first round fills caches.
    if (at < 0) continue;
    ratios.push(own / hello);
    helloMs.push(hello);
    programMs.push(own);
  }
  // From source the runtime reads the whole program's graph before it runs a line of it: no bar is set for that.
  const bar = name === "the binary" ? { atMost: 1.7 } : null;
  return [
    { name: `${name}: --json ÷ hello-world, median of the pairs`, value: median(ratios), unit: "×", bar, n: PAIRS },
    { name: `${name}: hello-world, median`, value: median(helloMs), unit: "ms", bar: null, n: PAIRS },
    { name: `${name}: --json, median`, value: median(programMs), unit: "ms", bar: null, n: PAIRS },
  ];
}

async function timed({ path, args }: Program, more: readonly string[]): Promise<number> {
  const startMs = performance.now();
  const { code, stderr } = await ask(path, [...args, ...more], { cwd: ROOT.pathname });
  if (code !== 0) throw new Error(`${path} ended with ${code}: ${stderr}`);
  return performance.now() - startMs;
}
