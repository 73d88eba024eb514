import assert from "node:assert/strict";
import { HEAP_FLAGS, ROOT } from "./tools.ts";

/** As deno.json has them; checked by their use. */
type Tasks = Readonly<Record<string, { readonly command: string }>>;

Deno.test("who starts the service from source gets the heaps of the binary, and the benches measure those", async () => {
  const { tasks } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT))) as { tasks: Tasks };
  for (const name of ["start", "demo", "bench"]) {
    assert.ok(tasks[name]?.command.startsWith(`deno run -A ${HEAP_FLAGS} `), `${name}: ${tasks[name]?.command}`);
  }
});
