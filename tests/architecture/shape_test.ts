import assert from "node:assert/strict";
import { misshapes } from "./shape.ts";

const CASES: readonly (readonly [path: string, source: string, found: readonly string[]])[] = [
  ["lib/decide/arbiter.ts", "export const a = 1;\n", []],
  ["lib/decide/long.ts", "x;\n".repeat(400), []],
  ["lib/decide/long.ts", "x;\n".repeat(401), ["401 lines, more than 400: it holds more than one thing"]],
  ["lib/decide/YieldJob.ts", "x;", ["file names are snake_case"]],
  ["lib/decide/index.ts", "x;", [`"index" says nothing; a file is named after its main export`]],
  ["lib/show/http_utils.ts", "x;", [`"http_utils" says nothing; a file is named after its main export`]],
  ["lib/show/rest.ts", "export default app;", ["export default gives one thing many names"]],
  ["lib/show/doors.ts", `export * from "./rest.ts";\nexport { a, type B } from "./mcp.ts";\n`, [
    "it only passes on what others export; import from where a thing is made",
  ]],
  ["lib/show/doors.ts", `export { a } from "./mcp.ts";\nexport const b = 1;\n`, []],
  ["lib/show/doors.ts", `// export default in a comment\nimport { a } from "./mcp.ts";\na();\n`, []],
  ["main.ts", `import { run } from "./lib/app.ts";\nawait run();\n`, []],
];

for (const [path, source, found] of CASES) {
  Deno.test(`shape of ${path}: ${found.join(", ") || "fine"} (${source.length} characters)`, () => {
    assert.deepEqual(misshapes(path, source), found.map((text) => `${path}: ${text}`));
  });
}
