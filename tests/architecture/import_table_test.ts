import assert from "node:assert/strict";
import type { EdgeKind } from "./graph.ts";
import { areaOf, AREAS, forbiddenEdges } from "./import_table.ts";

/** One planted edge, and the reason it is refused with. */
const PLANTED: readonly (readonly [from: string, to: string, kind: EdgeKind, reason: string])[] = [
  [
    "lib/decide/arbiter.ts",
    "lib/sample/sampler.ts",
    "value",
    "decide is pure and imports only model: time, samples, policy and results reach it as events",
  ],
  [
    "lib/decide/arbiter.ts",
    "node:fs",
    "value",
    "decide is pure and imports only model: time, samples, policy and results reach it as events",
  ],
  [
    "lib/decide/arbiter.ts",
    "npm:zod",
    "type",
    "decide is pure and imports only model: time, samples, policy and results reach it as events",
  ],
  [
    "lib/sample/sampler.ts",
    "ffi/nvml.ts",
    "value",
    "sample only observes (model, upstream, types of ffi): live NVML and libc are handed to it by the workers",
  ],
  [
    "lib/show/rest.ts",
    "lib/decide/arbiter.ts",
    "type",
    "doors know operations, not the domain (operations, model and the libraries of HTTP, MCP, CLI and docs)",
  ],
  [
    "lib/services/arbitration.ts",
    "lib/workers/nvml.ts",
    "worker",
    "services join decide, act, sample, record and upstream; wiring, configuration and doors are app's",
  ],
  [
    "lib/services/arbitration.ts",
    "lib/config/schema.ts",
    "type",
    "services join decide, act, sample, record and upstream; wiring, configuration and doors are app's",
  ],
  [
    "lib/workers/nvml.ts",
    "lib/lab/ollama.ts",
    "value",
    "workers hold what blocks (ffi, record, sample, act, system, the lab's GPU table) and decide nothing",
  ],
  [
    "lib/operations/routes.ts",
    "lib/model/failure.ts",
    "type",
    "routes is a plain table without imports, so that the dashboard can bundle it",
  ],
  [
    "static/src/app.tsx",
    "lib/operations/operation.ts",
    "value",
    "the dashboard runs in a browser: routes and frames as values, model and operations as types, preact, signals, uplot",
  ],
  ["ffi/libc.ts", "npm:hono", "value", "ffi is a leaf: C calls only, no policy, no npm, nothing from lib"],
  [
    "lib/house.ts",
    "lib/workers/nvml_client.ts",
    "value",
    "the house joins what is handed to it and opens nothing: ffi, workers, lab, doors and what of record has a file are app's",
  ],
  [
    "lib/house.ts",
    "lib/act/machine.ts",
    "value",
    "the house joins what is handed to it and opens nothing: ffi, workers, lab, doors and what of record has a file are app's",
  ],
  [
    "lib/household.ts",
    "lib/record/store.ts",
    "value",
    "the household decides and acts through the ports it is handed: it knows no library, database or door",
  ],
  [
    "lib/house_ports.ts",
    "lib/services/cache_keeper.ts",
    "value",
    "what the house stands on is named there, and opened by app",
  ],
  [
    "lib/lone_card.ts",
    "lib/house.ts",
    "value",
    "the lone card is the nvml Worker and the owner's lock: restoring opens no house beside an owner that hangs",
  ],
  [
    "lib/ground.ts",
    "lib/decide/arbiter.ts",
    "value",
    "the ground is this machine or the lab (sample, upstream, workers, lab): nobody decides or shows there",
  ],
  [
    "lib/service.ts",
    "lib/lab/box.ts",
    "value",
    "the service joins house, store and doors over a ground that it is handed: it opens no hardware and no lab",
  ],
  ["main.ts", "lib/loop.ts", "value", "main hands argv to the quick answer or the command line and has no logic"],
  ["lib/app.ts", "node:child_process", "value", "the service starts no process, ever"],
  ["lib/app.ts", "node:timers/promises", "value", "timers come from the Clock port"],
  [
    "lib/app.ts",
    "https://example.org/mod.ts",
    "value",
    "packages come from npm alone, so that one registry builds the product",
  ],
  ["lib/util/strings.ts", "lib/model/units.ts", "value", "no area of the import table covers this file"],
];

const HOW = { value: "", type: " (import type)", worker: " (new Worker)" } as const;

for (const [from, to, kind, reason] of PLANTED) {
  Deno.test(`refused: ${from} → ${to}${HOW[kind]}`, () => {
    assert.deepEqual(forbiddenEdges([{ from, to, kind }]), [`forbidden edge ${from} → ${to}${HOW[kind]}: ${reason}`]);
  });
}

const ALLOWED: readonly (readonly [from: string, to: string, kind: EdgeKind])[] = [
  ["lib/decide/arbiter.ts", "lib/decide/yield_job.ts", "value"],
  ["lib/decide/arbiter.ts", "lib/model/events.ts", "value"],
  ["lib/sample/gpu_reader.ts", "ffi/nvml.ts", "type"],
  ["lib/workers/nvml.ts", "ffi/nvml.ts", "value"],
  ["lib/workers/nvml.ts", "lib/lab/gpu_table.ts", "value"],
  ["lib/workers/nvml_client.ts", "lib/workers/nvml.ts", "worker"],
  ["lib/record/store.ts", "node:sqlite", "value"],
  ["lib/config/schema.ts", "npm:zod", "value"],
  ["lib/config/load.ts", "npm:smol-toml", "value"],
  ["lib/operations/operation.ts", "npm:zod", "value"],
  ["lib/show/mcp.ts", "npm:@modelcontextprotocol/server", "value"],
  ["lib/app.ts", "lib/services/live.ts", "value"],
  ["lib/household.ts", "lib/act/machine.ts", "value"],
  ["lib/house.ts", "lib/household.ts", "value"],
  ["lib/house_ports.ts", "lib/services/cache_keeper.ts", "type"],
  ["lib/service.ts", "lib/house.ts", "value"],
  ["lib/ground.ts", "lib/lab/box.ts", "value"],
  ["lib/lone_card.ts", "lib/workers/nvml_client.ts", "value"],
  ["lib/app.ts", "static/assets.ts", "value"],
  ["main.ts", "lib/command_line.ts", "value"],
  ["static/src/app.tsx", "lib/operations/routes.ts", "value"],
  ["static/src/app.tsx", "lib/model/sample.ts", "type"],
];

for (const [from, to, kind] of ALLOWED) {
  Deno.test(`allowed: ${from} → ${to}${HOW[kind]}`, () => {
    assert.deepEqual(forbiddenEdges([{ from, to, kind }]), []);
  });
}

Deno.test("the most specific area counts", () => {
  assert.equal(areaOf("lib/operations/routes.ts")?.path, "lib/operations/routes.ts");
  assert.equal(areaOf("lib/operations/registry.ts")?.path, "lib/operations/");
  assert.equal(areaOf("lib/utils.ts"), null);
});

Deno.test("each area stands once", () => {
  const paths = AREAS.map(({ path }) => path);
  assert.deepEqual(paths, [...new Set(paths)]);
});
