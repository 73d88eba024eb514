/**
 * `deno task compile`: one binary, .build/bin/hyperswap. The program is bundled first and compiled from a folder of its
 * own: straight from main.ts, Deno 2.4.2 would embed every package of the lock file, the tests' among them.
 */
import { projectSource, readGraph } from "../architecture/graph.ts";
import { ask, denort, HEAP_FLAGS, ROOT, SHIPPED_DENO, shippedDeno } from "./tools.ts";
import { pointWorkersAtBundles } from "./worker_urls.ts";

/** What the service touches: libraries, sockets, its own files, the environment. No --allow-run. */
const PERMISSIONS = ["--allow-ffi", "--allow-net", "--allow-read", "--allow-write", "--allow-env", "--allow-sys"];

/** Why there can be no binary on this machine, as opposed to a program that doesn't compile. */
export class CannotCompile extends Error {
  override readonly name = "CannotCompile";
}

/** Bundles and compiles; resolves with the binary's path. Needs static/dist (task build). */
export async function compileBinary(): Promise<string> {
  const [runtime, deno] = await Promise.all([denort(), shippedDeno()]);
  if ("reason" in runtime) throw new CannotCompile(`Cannot compile: ${runtime.reason}`);
  if ("reason" in deno) throw new CannotCompile(`Cannot compile: ${deno.reason}`);
  const folder = await Deno.makeTempDir({ prefix: "hyperswap_bundle_" });
  try {
    const workers = await bundle(folder);
    const binary = new URL(".build/bin/hyperswap", ROOT).pathname;
    await Deno.mkdir(new URL(".build/bin/", ROOT), { recursive: true });
    await demand(deno.path, [
      ...["compile", "-q", "--no-check", "--no-config", "--no-lock", "--no-npm", "--no-remote", "--no-prompt"],
      ...["--unstable-net", "--unstable-no-legacy-abort", HEAP_FLAGS, ...PERMISSIONS],
      ...workers.flatMap((entry) => ["--include", entry]),
      ...["-o", binary, "main.js"],
    ], {
      cwd: folder,
      // A large bundle overflows the stack of 2.4.2's threads as it is compiled.
      env: { DENORT_BIN: runtime.path, RUST_MIN_STACK: "67108864", DENO_TLS_CA_STORE: "system" },
    });
    return binary;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Puts main.js, one file a Worker and what they share into the folder; resolves with the Workers' paths there. */
async function bundle(folder: string): Promise<string[]> {
  const { edges } = await readGraph(projectSource(ROOT), ["main.ts"]);
  const entries = [...new Set(edges.filter(({ kind }) => kind === "worker").map(({ to }) => to))].sort();
  // Split, so that a command loads what it needs and no more: `--version` never reads the MCP library.
  const options = ["bundle", "-q", "--platform", "deno", "--code-splitting", "--outdir", folder];
  await demand(Deno.execPath(), [...options, "main.ts", ...entries], {});
  const workers = entries.map((entry) => entry.replace(/\.tsx?$/, ".js"));
  for (const path of await scripts(folder)) {
    const file = `${folder}/${path}`;
    await Deno.writeTextFile(file, pointWorkersAtBundles(path, await Deno.readTextFile(file), workers));
  }
  return workers;
}

async function scripts(folder: string, below = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { name, isDirectory } of Deno.readDir(`${folder}/${below}`)) {
    if (isDirectory) found.push(...await scripts(folder, `${below}${name}/`));
    else if (name.endsWith(".js")) found.push(below + name);
  }
  return found;
}

async function demand(program: string, args: readonly string[], options: Parameters<typeof ask>[2]): Promise<void> {
  const answer = await ask(program, args, options);
  if (answer.code !== 0) {
    throw new Error(`Cannot ${args[0]} HyperSwap: ${answer.stderr.trim() || answer.stdout.trim()}`);
  }
}

if (import.meta.main) {
  try {
    const binary = await compileBinary();
    const { size } = await Deno.stat(binary);
    console.log(`${binary} (Deno ${SHIPPED_DENO}, ${Math.round(size / 1e6)} MB)`);
  } catch (error) {
    console.error(error instanceof Error ? error.message : String(error));
    Deno.exit(1);
  }
}
