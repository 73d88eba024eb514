import assert from "node:assert/strict";
import { mulberry } from "../act/mulberry.ts";
import { LOCAL, openDoor, SOCKET, STRANGER } from "../show/rest_door.ts";
import { Generator } from "./generate.ts";
import { faults } from "./judge.ts";
import { violations } from "./schema.ts";

const REQUESTS = 300;

/** As a client's own fetch reads it. */
async function textOf(response: Response): Promise<string> {
  if (response.headers.get("content-encoding") !== "gzip" || response.body === null) return await response.text();
  return await new Response(response.body.pipeThrough(new DecompressionStream("gzip"))).text();
}

Deno.test(`${REQUESTS} requests out of the API's own description, well meant and not: every answer is as described`, async () => {
  const open = openDoor();
  const document = (await open.ask("GET /openapi.json")).json;
  const generator = new Generator(document, { random: mulberry(11) });
  const wrong: string[] = [];
  const kinds = new Map<number, number>();
  for (let n = 0; n < REQUESTS; n++) {
    const request = generator.next();
    const { method, target, headers, body } = request;
    const peer = [LOCAL, LOCAL, SOCKET, STRANGER][n % 4] ?? LOCAL;
    const response = await open.door.fetch(
      new Request(new URL(target, "http://127.0.0.1:9090"), {
        method,
        headers: { host: "127.0.0.1:9090", ...headers },
        ...(body === null ? {} : { body }),
      }),
      peer,
    );
    const contentType = response.headers.get("content-type") ?? "";
    const isStream = contentType.startsWith("text/event-stream");
    if (isStream) await response.body?.cancel();
    const text = isStream ? "" : await textOf(response);
    const answer = { status: response.status, contentType, text, tookMs: 0 };
    kinds.set(response.status, (kinds.get(response.status) ?? 0) + 1);
    for (const fault of faults(document, request, answer)) {
      wrong.push(`${method} ${target.slice(0, 200)} ${body?.slice(0, 200)}: ${fault}`);
    }
  }
  assert.deepEqual(wrong, []);
  assert.deepEqual(open.box.defects, []);
  assert.ok((kinds.get(200) ?? 0) > 40 && (kinds.get(400) ?? 0) > 40, JSON.stringify([...kinds]));
  await open.door.close();
});

Deno.test("the checker finds what doesn't fit", () => {
  const root = { a: { type: ["string", "null"] } };
  const schema = {
    type: "object",
    properties: {
      x: { $ref: "#/a" },
      n: { type: "integer", minimum: 1 },
      list: { type: "array", items: { enum: ["a"] } },
    },
    required: ["x"],
    additionalProperties: false,
  };
  assert.deepEqual(violations(schema, { x: null, n: 1, list: ["a"] }, { root }), []);
  for (
    const value of [{}, { x: 1 }, { x: "", n: 0 }, { x: "", n: 1.5 }, { x: "", list: ["b"] }, { x: "", y: 1 }, [], null]
  ) {
    assert.notDeepEqual(violations(schema, value, { root }), [], JSON.stringify(value));
  }
});
