/**
 * The house stands as DESIGN draws it: who imports whom, what stands only where, how a file looks. The rules are in
 * tests/architecture/, each with its reason and with planted violations that it must catch.
 */
import assert from "node:assert/strict";
import { projectSource, readGraph } from "./architecture/graph.ts";
import { forbiddenEdges } from "./architecture/import_table.ts";
import { misshapes } from "./architecture/shape.ts";
import { forbiddenUses } from "./architecture/stands_only_in.ts";

const ROOT = new URL("../", import.meta.url);
const ENTRIES = ["main.ts", "static/src/app.tsx"];

/** Every TypeScript file below these, reached from an entry or not: what isn't wired yet keeps the rules too. */
async function sources(...folders: readonly string[]): Promise<string[]> {
  const found: string[] = [];
  const visit = async (folder: string) => {
    for await (const { name, isDirectory } of Deno.readDir(new URL(folder, ROOT))) {
      if (isDirectory) await visit(`${folder}${name}/`);
      else if (/\.tsx?$/.test(name)) found.push(folder + name);
    }
  };
  for (const folder of folders) await visit(folder);
  return found.sort();
}

async function product(): Promise<string[]> {
  return [...ENTRIES, ...await sources("ffi/", "lib/", "static/src/")].filter((path, at, all) =>
    all.indexOf(path) === at
  );
}

const read = (path: string) => Deno.readTextFile(new URL(path, ROOT));

async function collect(paths: readonly string[], judge: (path: string, source: string) => string[]): Promise<string[]> {
  return (await Promise.all(paths.map(async (path) => judge(path, await read(path))))).flat();
}

Deno.test("imports follow the table", async () => {
  const { edges, modules } = await readGraph(projectSource(ROOT), await product());
  assert.ok(modules.length > 50, `only ${modules.length} modules were read`);
  assert.ok(edges.some(({ kind }) => kind === "worker"), "no Worker was followed");
  assert.deepEqual(forbiddenEdges(edges), []);
});

Deno.test("clocks, env, console, dlopen and processes stand only where they may", async () => {
  const paths = (await product()).filter((path) => !path.startsWith("static/"));
  assert.deepEqual(await collect(paths, forbiddenUses), []);
});

Deno.test("files are short, well named and their own", async () => {
  assert.deepEqual(await collect([...await product(), ...await sources("tests/")], misshapes), []);
});
