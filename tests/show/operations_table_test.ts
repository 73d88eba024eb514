import assert from "node:assert/strict";
import type { Operation } from "../../lib/operations/operation.ts";
import type { Parameter } from "../../lib/operations/parameters.ts";
import { feeds, operations } from "../../lib/operations/registry.ts";
import { openDoor } from "./rest_door.ts";
import { KNOWN_TOOLS, OTHER_PATHS, TABLE } from "./operations_table.ts";

interface Row {
  readonly route: string;
  readonly tool: string;
  readonly words: string;
  readonly access: string;
  readonly parameters: readonly string[];
}

const ROWS: readonly Row[] = TABLE.trim().split("\n").map((line) => {
  const [route = "", tool = "", words = "", access = "", ...parameters] = line.split(/ \| ?|\|$/).map((cell) =>
    cell.trim()
  );
  const listed = parameters.join(" | ").split(";").map((parameter) => parameter.trim()).filter((text) => text !== "");
  return { route, tool, words, access, parameters: listed };
});

function written(parameter: Parameter): string {
  const { name, kind, required, default: fallback, choices, minimum, isMinimumExclusive, maximum, aliases } = parameter;
  return [
    `${name} ${kind}${required ? "!" : ""}${fallback === undefined ? "" : `=${fallback}`}`,
    ...choices === null ? [] : [choices.join("|")],
    ...isMinimumExclusive && minimum !== null ? [`>${minimum}`] : [],
    ...minimum !== null && maximum !== null && !isMinimumExclusive ? [`${minimum}..${maximum}`] : [],
    ...aliases.map((alias) => `@${alias}`),
  ].join(" ");
}

function operationAt(route: string): Operation {
  const found = operations.find(({ http }) => `${http.method} ${http.path}` === route);
  assert.ok(found, `nothing answers ${route}`);
  return found;
}

Deno.test("every row of the contract is there, and no other: path, tool, command, access", () => {
  assert.deepEqual(
    operations.map(({ http }) => `${http.method} ${http.path}`).sort(),
    ROWS.map(({ route }) => route).sort(),
  );
  for (const row of ROWS) {
    const { tool, cli, access } = operationAt(row.route);
    assert.deepEqual(
      [tool === false ? "–" : tool.name, cli === false ? "–" : cli.words.join(" "), access],
      [row.tool, row.words, row.access],
      row.route,
    );
  }
  for (const path of ["/api/stream", "/api/runs/{id}/events"]) {
    assert.ok(feeds.some(({ http }) => http.path === path), path);
  }
});

Deno.test("every row's parameters are there, with kind, default, choices, bounds and aliases", () => {
  for (const { route, parameters } of ROWS) {
    const offered = operationAt(route).parameters.map(written);
    for (const parameter of parameters) {
      const [wanted = "", ...details] = parameter.split(" ").map((part) => part.trim());
      const own = offered.find((text) => text.startsWith(`${wanted} `));
      assert.ok(own, `${route} takes no ${wanted} but ${offered.join("; ")}`);
      const parts = own.split(" ").slice(1);
      for (const detail of details) {
        // More choices than were promised are welcome.
        const isThere = parts.some((part) => detail.split("|").every((choice) => part.split("|").includes(choice)));
        assert.ok(isThere, `${route}: ${own} has no ${detail}`);
      }
    }
  }
});

Deno.test("the tool names that users know are all there", () => {
  assert.equal(KNOWN_TOOLS.length, 23);
  const offered = new Set(operations.flatMap(({ tool }) => tool === false ? [] : [tool.name]));
  for (const name of KNOWN_TOOLS) assert.ok(offered.has(name), name);
});

Deno.test("what stands beside the operations answers too", async () => {
  const open = openDoor();
  const { id } = open.box.runs.start("x", () => Promise.resolve({}));
  for (const path of OTHER_PATHS) {
    const response = await open.request(`GET ${path.replace("{id}", id)}`);
    assert.equal(response.status, 200, path);
    await response.body?.cancel();
  }
  await open.door.close();
});

Deno.test("every figure with a unit in its name says which unit in the description", () => {
  for (const { name, parameters } of operations) {
    for (const parameter of parameters.filter((one) => /_(gb|mb)$/.test(one.name))) {
      assert.match(parameter.description, /GiB|GB/, `${name} ${parameter.name}`);
    }
  }
});
