/**
 * Who may import whom, as data (entries as covers.ts reads them). What is allowed as a value is allowed as a type.
 */
import { covers } from "./covers.ts";
import type { Edge } from "./graph.ts";

export interface Area {
  /** What belongs to it. Of several, the most specific counts. */
  readonly path: string;
  readonly values: readonly string[];
  readonly types: readonly string[];
  readonly packages: readonly string[];
  /** Parts of Node's library; null = any that FORBIDDEN_BUILTINS doesn't name. */
  readonly builtins: readonly string[] | null;
  /** Ends the failure's text: why this area's imports are what they are. */
  readonly reason: string;
}

const NONE = { types: [], packages: [], builtins: null } as const;

export const AREAS: readonly Area[] = [
  {
    ...NONE,
    path: "ffi/",
    values: [],
    builtins: [],
    reason: "ffi is a leaf: C calls only, no policy, no npm, nothing from lib",
  },
  {
    ...NONE,
    path: "lib/model/",
    values: [],
    builtins: [],
    reason: "model is the shared vocabulary and stands on nothing",
  },
  {
    ...NONE,
    path: "lib/decide/",
    values: ["lib/model/"],
    builtins: [],
    reason: "decide is pure and imports only model: time, samples, policy and results reach it as events",
  },
  {
    ...NONE,
    path: "lib/config/",
    values: ["lib/model/"],
    packages: ["zod", "smol-toml"],
    reason: "config knows what can be configured (model, zod, smol-toml), not who uses it",
  },
  {
    ...NONE,
    path: "lib/record/",
    values: ["lib/model/"],
    builtins: ["node:sqlite"],
    reason: "record keeps what it is handed (model) in node:sqlite and asks nobody",
  },
  {
    ...NONE,
    path: "lib/system/",
    values: ["lib/model/"],
    reason: "system makes the ports of model real and knows nothing of their users",
  },
  {
    ...NONE,
    path: "lib/upstream/",
    values: ["lib/model/"],
    reason: "upstream speaks to Ollama and ComfyUI in terms of model; sample and act share it",
  },
  {
    ...NONE,
    path: "lib/sample/",
    values: ["lib/model/", "lib/upstream/"],
    types: ["ffi/"],
    reason: "sample only observes (model, upstream, types of ffi): live NVML and libc are handed to it by the workers",
  },
  {
    ...NONE,
    path: "lib/act/",
    values: ["lib/model/", "lib/upstream/"],
    types: ["ffi/"],
    reason: "act carries out what was decided (model, upstream, types of ffi): it neither samples nor decides",
  },
  {
    ...NONE,
    path: "lib/workers/",
    values: [
      "lib/model/",
      "ffi/",
      "lib/record/",
      "lib/sample/",
      "lib/act/",
      "lib/system/",
      "lib/lab/gpu_table.ts",
      // Between two reads of a warm there is no time to ask the main thread how fast the next may be.
      "lib/decide/warm_chunk.ts",
      "lib/decide/warm_method.ts",
      "lib/decide/warm_pace.ts",
      "lib/decide/warm_room.ts",
      // Thousands of events are ranked where they are read: moving them to the main thread would hold it up.
      "lib/decide/model_ranking.ts",
    ],
    reason: "workers hold what blocks (ffi, record, sample, act, system, the lab's GPU table) and decide nothing",
  },
  {
    ...NONE,
    path: "lib/gate/",
    values: ["lib/model/", "lib/upstream/"],
    builtins: [],
    reason: "gate moves bytes between bare sockets (model, upstream) and holds them on the arbiter's word",
  },
  {
    ...NONE,
    path: "lib/services/",
    values: ["lib/model/", "lib/decide/", "lib/act/", "lib/sample/", "lib/record/", "lib/upstream/"],
    reason: "services join decide, act, sample, record and upstream; wiring, configuration and doors are app's",
  },
  {
    ...NONE,
    path: "lib/operations/",
    values: ["lib/model/"],
    packages: ["zod"],
    reason: "operations know the interfaces of model and zod, not who makes them real nor which door asks",
  },
  {
    ...NONE,
    path: "lib/operations/routes.ts",
    values: [],
    builtins: [],
    reason: "routes is a plain table without imports, so that the dashboard can bundle it",
  },
  {
    ...NONE,
    path: "lib/operations/frames.ts",
    values: [],
    builtins: [],
    reason: "frames replays the stream without imports, so that the dashboard does it with the same code",
  },
  {
    ...NONE,
    path: "lib/setup/",
    // Files that it puts in their places travel inside.
    values: ["lib/model/", "lib/config/", "lib/system/", "systemd/"],
    packages: ["smol-toml"],
    reason: "setup runs without a service (model, config, system)",
  },
  {
    ...NONE,
    path: "lib/show/",
    values: ["lib/operations/", "lib/model/"],
    packages: ["hono", "@modelcontextprotocol/server", "zod", "@stricli/core", "swagger-ui-dist", "prom-client"],
    reason: "doors know operations, not the domain (operations, model and the libraries of HTTP, MCP, CLI and docs)",
  },
  {
    ...NONE,
    path: "lib/lab/",
    values: ["lib/model/"],
    types: ["ffi/"],
    reason:
      "the lab stands in for hardware and upstreams (model, types of ffi) and must not share code with what it tests",
  },
  {
    ...NONE,
    path: "lib/loop.ts",
    values: ["lib/model/", "lib/decide/"],
    builtins: [],
    reason: "the loop is the spine (model, decide): one second of the service, with everything handed to it",
  },
  {
    ...NONE,
    path: "lib/house_ports.ts",
    values: [],
    types: ["lib/model/", "lib/sample/", "lib/services/", "lib/upstream/"],
    builtins: [],
    reason: "what the house stands on is named there, and opened by app",
  },
  {
    ...NONE,
    path: "lib/household.ts",
    values: ["lib/model/", "lib/loop.ts", "lib/decide/", "lib/act/", "lib/sample/", "lib/services/"],
    types: ["lib/house_ports.ts"],
    builtins: [],
    reason: "the household decides and acts through the ports it is handed: it knows no library, database or door",
  },
  {
    ...NONE,
    path: "lib/house.ts",
    values: ["lib/model/", "lib/loop.ts", "lib/household.ts", "lib/sample/", "lib/services/", "lib/record/recorder.ts"],
    types: ["lib/house_ports.ts"],
    builtins: [],
    reason:
      "the house joins what is handed to it and opens nothing: ffi, workers, lab, doors and what of record has a file are app's",
  },
  {
    ...NONE,
    path: "lib/ground.ts",
    // Ending a process needs this machine's libc, which only the ground holds.
    values: ["lib/model/", "lib/sample/", "lib/upstream/", "lib/workers/", "lib/lab/", "lib/act/end_process.ts"],
    types: ["ffi/", "lib/config/"],
    builtins: [],
    reason: "the ground is this machine or the lab (sample, upstream, workers, lab): nobody decides or shows there",
  },
  {
    ...NONE,
    path: "lib/gate_doors.ts",
    values: ["lib/model/", "lib/gate/"],
    types: ["lib/config/", "lib/ground.ts"],
    builtins: [],
    reason: "the gate's doors are opened as they are configured: who may pass is said by the admission they are handed",
  },
  {
    ...NONE,
    path: "lib/lone_card.ts",
    values: ["lib/model/", "lib/services/", "lib/system/", "lib/workers/"],
    types: ["ffi/", "lib/service.ts"],
    builtins: [],
    reason:
      "the lone card is the nvml Worker and the owner's lock: restoring opens no house beside an owner that hangs",
  },
  {
    ...NONE,
    path: "lib/service.ts",
    values: [
      ...["lib/model/", "lib/config/", "lib/house.ts", "lib/record/", "lib/sample/", "lib/show/", "lib/system/"],
      ...["lib/gate_doors.ts", "lib/upstream/", "lib/workers/", "static/assets.ts"],
    ],
    types: ["ffi/", "lib/ground.ts", "lib/house_ports.ts"],
    builtins: [],
    reason: "the service joins house, store and doors over a ground that it is handed: it opens no hardware and no lab",
  },
  {
    ...NONE,
    path: "lib/app.ts",
    values: ["lib/", "ffi/", "static/assets.ts"],
    reason: "app wires what stands in lib, ffi and static/assets.ts, and needs no library of its own for that",
  },
  {
    ...NONE,
    path: "lib/quick.ts",
    values: [
      ...["lib/config/address.ts", "lib/config/environment.ts", "lib/show/cli_quick.ts", "lib/show/cli_output.ts"],
      "lib/system/clock.ts",
    ],
    builtins: [],
    reason: "the quick answer costs little more than an empty program: no library, no schema, no operation",
  },
  {
    ...NONE,
    path: "lib/client.ts",
    values: [
      ...["lib/model/", "lib/config/", "lib/show/http_invoker.ts", "lib/show/invoker.ts", "lib/system/clock.ts"],
      "lib/app.ts",
    ],
    types: ["lib/show/cli_commands.ts"],
    builtins: [],
    reason: "the client looks for a running service, and hands over to app where there is none",
  },
  {
    ...NONE,
    path: "lib/command_line.ts",
    values: [
      ...["lib/model/", "lib/config/environment.ts", "lib/setup/", "lib/show/cli*", "lib/system/clock.ts"],
      ...["lib/client.ts", "lib/app.ts"],
    ],
    builtins: [],
    reason: "the command line hands argv to app, client, setup or the CLI and has no logic",
  },
  {
    ...NONE,
    path: "main.ts",
    values: ["lib/quick.ts", "lib/command_line.ts", "lib/show/cli_output.ts"],
    reason: "main hands argv to the quick answer or the command line and has no logic",
  },
  {
    ...NONE,
    path: "static/",
    values: ["lib/operations/routes.ts", "lib/operations/frames.ts"],
    types: ["lib/model/", "lib/operations/"],
    packages: ["preact", "@preact/signals", "uplot"],
    builtins: [],
    reason:
      "the dashboard runs in a browser: routes and frames as values, model and operations as types, preact, signals, uplot",
  },
];

/** Parts of Node's library that no file of the product may import, and why. */
export const FORBIDDEN_BUILTINS: Readonly<Record<string, string>> = {
  "node:child_process": "the service starts no process, ever",
  "node:cluster": "the service starts no process, ever",
  "node:module": "createRequire loads what the graph doesn't show",
  "node:vm": "code that is made at run time can't be checked",
  "node:worker_threads": "Workers are started by new Worker(new URL(…)), which is checked",
  "node:timers": "timers come from the Clock port",
  "node:timers/promises": "timers come from the Clock port",
  "node:perf_hooks": "time comes from the Clock port",
};

/** "forbidden edge A → B: reason", one line for each edge that the table doesn't allow. */
export function forbiddenEdges(edges: readonly Edge[]): string[] {
  return edges.flatMap((edge) => {
    const reason = objection(edge);
    const how = { value: "", type: " (import type)", worker: " (new Worker)" }[edge.kind];
    return reason === null ? [] : [`forbidden edge ${edge.from} → ${edge.to}${how}: ${reason}`];
  });
}

function objection({ from, to, kind }: Edge): string | null {
  const area = areaOf(from);
  if (area === null) return "no area of the import table covers this file";
  if (to.startsWith("npm:")) return area.packages.includes(to.slice(4)) ? null : area.reason;
  if (to.startsWith("node:")) {
    const banned = FORBIDDEN_BUILTINS[to];
    if (banned !== undefined) return banned;
    return area.builtins === null || area.builtins.includes(to) ? null : area.reason;
  }
  if (/^[a-z]+:/.test(to)) return "packages come from npm alone, so that one registry builds the product";
  const allowed = [area.path, ...area.values, ...(kind === "type" ? area.types : [])];
  return allowed.some((entry) => covers(entry, to)) ? null : area.reason;
}

/** The most specific area of a file; null where none covers it. */
export function areaOf(path: string): Area | null {
  const covering = AREAS.filter((area) => covers(area.path, path));
  return covering.sort((a, b) => b.path.length - a.path.length)[0] ?? null;
}
