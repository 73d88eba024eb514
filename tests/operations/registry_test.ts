import assert from "node:assert/strict";
import { feeds, operationNamed, operations } from "../../lib/operations/registry.ts";
import { FEEDS, ROUTES } from "../../lib/operations/routes.ts";

Deno.test("the table of routes equals the registry", () => {
  const routesOf = (list: readonly { name: string; http: { method: string; path: string } }[]) =>
    Object.fromEntries(list.map(({ name, http: { method, path } }) => [name, { method, path }]));
  assert.deepEqual(routesOf(operations), ROUTES);
  assert.deepEqual(routesOf(feeds), FEEDS);
});

Deno.test("names, routes, tools and commands are unique", () => {
  const columns = [
    operations.map(({ name }) => name),
    operations.map(({ http }) => `${http.method} ${http.path}`),
    operations.flatMap(({ tool }) => tool === false ? [] : [tool.name]),
    operations.flatMap(({ cli }) => cli === false ? [] : [cli.words.join(" ")]),
  ];
  for (const names of columns) assert.equal(new Set(names).size, names.length);
});

Deno.test("reads only read: nothing that needs more than read is a GET", () => {
  for (const { name, access, http } of operations) assert.equal(http.method === "GET", access === "read", name);
});

Deno.test("every positional, alias, path and query name is a parameter, and no alias hides one", () => {
  for (const { name, cli, aliases, http, parameters } of operations) {
    const known = new Set(parameters.map((parameter) => parameter.name));
    const inPath = [...http.path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter!);
    const mentioned = [
      ...(cli === false ? [] : cli.positional ?? []),
      ...Object.values(aliases),
      ...inPath,
      ...(http.query ?? []),
    ];
    for (const mention of mentioned) assert.ok(known.has(mention), `${name} has no parameter ${mention}`);
    for (const alias of Object.keys(aliases)) assert.ok(!known.has(alias), `${name}: ${alias} is alias and parameter`);
  }
});

Deno.test("parameters are described, with their defaults and bounds", () => {
  for (const { name, parameters } of operations) {
    for (const parameter of parameters) assert.notEqual(parameter.description, "", `${name} ${parameter.name}`);
  }
  const limit = operationNamed("history").parameters.find(({ name }) => name === "limit");
  assert.deepEqual(limit && [limit.kind, limit.default, limit.minimum, limit.maximum], ["integer", 20, 1, 1000]);
  assert.throws(() => operationNamed("stat"), /no such|named stat/);
});
