import assert from "node:assert/strict";
import { type GraphSource, type Info, projectSource, readGraph, workerEntries } from "./graph.ts";
import { forbiddenEdges } from "./import_table.ts";

/** A project in memory: files by path; imports are read off the lines that begin with `import`. */
function virtualProject(files: Readonly<Record<string, string>>): GraphSource {
  const base = "file:///project/";
  const moduleOf = (path: string): Info["modules"][number] => ({
    specifier: base + path,
    dependencies: [...(files[path] ?? "").matchAll(/^import (type )?.*from "(.+)";$/gm)].map(([, type, to = ""]) => ({
      specifier: to,
      [type === undefined ? "code" : "type"]: { specifier: to.startsWith(".") ? new URL(to, base + path).href : to },
    })),
  });
  return {
    base,
    read: (path) => Promise.resolve(files[path] ?? ""),
    info(roots) {
      const found = new Map<string, Info["modules"][number]>();
      const visit = (path: string) => {
        if (found.has(path)) return;
        const module = moduleOf(path);
        found.set(path, module);
        for (const { code, type } of module.dependencies ?? []) {
          const to = (code ?? type)?.specifier ?? "";
          if (to.startsWith(base)) visit(to.slice(base.length));
        }
      };
      roots.forEach(visit);
      return Promise.resolve({ modules: [...found.values()] });
    },
  };
}

Deno.test("an edge behind a Worker is an edge, and so is starting it", async () => {
  const project = virtualProject({
    "main.ts": `import { commandLine } from "./lib/command_line.ts";`,
    "lib/command_line.ts": `import { start } from "./app.ts";`,
    "lib/app.ts": `import { nvml } from "./workers/nvml_client.ts";`,
    "lib/workers/nvml_client.ts": `new Worker(new URL("./nvml.ts", import.meta.url), { type: "module" });`,
    "lib/workers/nvml.ts":
      `import { open } from "../../ffi/nvml.ts";\nimport { arbitrate } from "../decide/arbiter.ts";`,
    "lib/decide/arbiter.ts": `import { run } from "node:child_process";`,
    "ffi/nvml.ts": "",
  });
  const { edges, modules } = await readGraph(project, ["main.ts"]);
  assert.ok(modules.includes("lib/decide/arbiter.ts"));
  assert.ok(
    edges.some(({ from, to, kind }) =>
      from === "lib/workers/nvml_client.ts" && to === "lib/workers/nvml.ts" && kind === "worker"
    ),
  );
  assert.deepEqual(forbiddenEdges(edges), [
    "forbidden edge lib/workers/nvml.ts → lib/decide/arbiter.ts: " +
    "workers hold what blocks (ffi, record, sample, act, system, the lab's GPU table) and decide nothing",
    "forbidden edge lib/decide/arbiter.ts → node:child_process: the service starts no process, ever",
  ]);
});

Deno.test("a Worker behind a Worker is followed too", async () => {
  const project = virtualProject({
    "main.ts": `new Worker(new URL("./a.ts", import.meta.url));`,
    "a.ts": "new Worker(new URL('./b.ts', import.meta.url));",
    "b.ts": "new Worker(new URL(`./main.ts`, import.meta.url));",
  });
  assert.deepEqual((await readGraph(project, ["main.ts"])).modules, ["a.ts", "b.ts", "main.ts"]);
});

Deno.test("types and packages are told apart", async () => {
  const project = virtualProject({
    "lib/sample/a.ts":
      `import type { Nvml } from "../../ffi/nvml.ts";\nimport { z } from "npm:/zod@4.6.7/mini";\nimport x from "npm:@a/b@1.0.0";`,
  });
  assert.deepEqual((await readGraph(project, ["lib/sample/a.ts"])).edges, [
    { from: "lib/sample/a.ts", to: "ffi/nvml.ts", kind: "type" },
    { from: "lib/sample/a.ts", to: "npm:zod", kind: "value" },
    { from: "lib/sample/a.ts", to: "npm:@a/b", kind: "value" },
  ]);
});

for (
  const source of [
    "new Worker(url, { type: 'module' });",
    `new Worker("./nvml.ts");`,
    `new Worker(new URL(name, import.meta.url));`,
    `new Worker(new URL("./nvml.ts", base));`,
    "new Worker(new URL(`./${name}.ts`, import.meta.url));",
    `const Thread = Worker; new Worker;`,
  ]
) {
  Deno.test(`a Worker that can't be followed is refused: ${source}`, () => {
    assert.throws(
      () => workerEntries("lib/workers/x.ts", `\n${source}`),
      /Cannot follow the Worker in lib\/workers\/x.ts:2/,
    );
  });
}

Deno.test("a Worker in a comment or a string is none", () => {
  assert.deepEqual(workerEntries("a.ts", `// new Worker(url)\nconst text = "new Worker(url)";`), []);
});

Deno.test("deno info says what is read from it", async () => {
  const root = new URL(`file://${await Deno.makeTempDir({ prefix: "planted_" })}/`);
  const write = (path: string, text: string) => Deno.writeTextFile(new URL(path, root), text);
  try {
    await write(
      "main.ts",
      `import "./b.ts";\nimport type { C } from "./c.ts";\nexport const later = () => import("./d.ts");\n`,
    );
    await write("b.ts", `new Worker(new URL("./e.ts", import.meta.url), { type: "module" });\n`);
    await write("c.ts", `export type C = 1;\n`);
    await write("d.ts", `import "node:child_process";\n`);
    await write("e.ts", `import text from "./f.txt" with { type: "text" };\nconsole.log(text);\n`);
    await write("f.txt", "text\n");
    const { edges } = await readGraph(projectSource(root), ["main.ts"]);
    assert.deepEqual(edges.map(({ from, to, kind }) => `${from} ${to} ${kind}`).sort(), [
      "b.ts e.ts worker",
      "d.ts node:child_process value",
      "e.ts f.txt value",
      "main.ts b.ts value",
      "main.ts c.ts type",
      "main.ts d.ts value",
    ]);
  } finally {
    await Deno.remove(root, { recursive: true });
  }
});
