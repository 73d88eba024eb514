import assert from "node:assert/strict";
import { pointWorkersAtBundles } from "./worker_urls.ts";

const WORKERS = ["lib/workers/nvml.js", "lib/workers/store.js"];
const NVML = `new Worker(new URL("./nvml.ts", import.meta.url), { type: "module" });`;

Deno.test("a chunk at the top points down at the Worker's bundle", () => {
  assert.equal(
    pointWorkersAtBundles("app-X1.js", NVML, WORKERS),
    `new Worker(new URL("./lib/workers/nvml.js", import.meta.url), { type: "module" });`,
  );
});

Deno.test("a Worker's bundle points up first", () => {
  assert.equal(
    pointWorkersAtBundles("lib/workers/store.js", "new URL('../x/nvml.ts',\n  import.meta.url)", WORKERS),
    `new URL("../../lib/workers/nvml.js", import.meta.url)`,
  );
});

Deno.test("other URLs stay", () => {
  const script = `new URL("./page.html", import.meta.url); new URL("./a.ts", base);`;
  assert.equal(pointWorkersAtBundles("main.js", script, WORKERS), script);
});

Deno.test("an entry that is missing or ambiguous is refused", () => {
  assert.throws(() => pointWorkersAtBundles("main.js", NVML, []), /0 of the bundles are called nvml.js/);
  assert.throws(() => pointWorkersAtBundles("main.js", NVML, ["a/nvml.js", "b/nvml.js"]), /2 of the bundles/);
});
