import assert from "node:assert/strict";
import { sample } from "../operations/fake_values.ts";
import { openDoor, STRANGER } from "./rest_door.ts";

async function gunzip(response: Response): Promise<string> {
  return await new Response(response.body!.pipeThrough(new DecompressionStream("gzip"))).text();
}

Deno.test("a large read is sent again only when it has changed, and zipped for who takes that", async () => {
  const { request, box } = openDoor();
  const first = await request("GET /api/stats");
  const etag = first.headers.get("etag") ?? "";
  assert.match(etag, /^W\/"[\w-]{27}"$/);
  const text = await first.text();
  const same = await request("GET /api/stats", { headers: { "if-none-match": etag } });
  assert.deepEqual([same.status, await same.text(), same.headers.get("etag")], [304, "", etag]);
  const zipped = await request("GET /api/stats", { headers: { "accept-encoding": "gzip, br" } });
  assert.equal(zipped.headers.get("content-encoding"), "gzip");
  assert.ok(Number(zipped.headers.get("content-length")) < text.length / 2);
  assert.equal(await gunzip(zipped), text);
  box.show({ sample: sample({ seq: 2, atMs: sample().atMs + 1000 }) });
  const changed = await request("GET /api/stats", { headers: { "if-none-match": etag } });
  assert.equal(changed.status, 200);
  assert.notEqual(changed.headers.get("etag"), etag);
  assert.match(changed.headers.get("vary") ?? "", /authorization, cookie/);
});

Deno.test("a tag tells a caller nothing it may not read", async () => {
  const { request } = openDoor();
  const etag = (await request("GET /api/stats")).headers.get("etag") ?? "";
  assert.equal((await request("GET /api/stats", { peer: STRANGER, headers: { "if-none-match": etag } })).status, 401);
});

Deno.test("small answers, errors and what changes something have no tag", async () => {
  const { request } = openDoor();
  for (const line of ["GET /api/version", "GET /api/nothing", "POST /api/comfy-free"]) {
    const { headers } = await request(line, { headers: { "accept-encoding": "gzip" } });
    assert.deepEqual([headers.get("etag"), headers.get("content-encoding")], [null, null], line);
    assert.equal(headers.get("cache-control"), "no-store", line);
  }
});

Deno.test("the API's description is zipped and tagged too", async () => {
  const { request } = openDoor();
  const zipped = await request("GET /openapi.json", { headers: { "accept-encoding": "gzip" } });
  assert.equal(zipped.headers.get("content-encoding"), "gzip");
  const etag = zipped.headers.get("etag") ?? "";
  assert.equal(JSON.parse(await gunzip(zipped)).openapi, "3.1.0");
  assert.equal((await request("GET /openapi.json", { headers: { "if-none-match": etag } })).status, 304);
});

Deno.test("a body that doesn't come in time or whole, or too much of one, is refused on every door", async () => {
  const { door, box } = openDoor();
  for (const path of ["/api/free-vram", "/api/login", "/mcp"]) {
    const drip = new ReadableStream<Uint8Array>({
      start: (controller) => controller.enqueue(new TextEncoder().encode('{"mod')),
    });
    const headers = { host: "127.0.0.1:9090", "content-type": "application/json" };
    const post = (body: BodyInit) =>
      door.fetch(new Request(`http://127.0.0.1:9090${path}`, { method: "POST", headers, body }), {
        transport: "tcp",
        hostname: "127.0.0.1",
      });
    const waiting = post(drip);
    await box.clock.settle();
    await box.clock.advance(10_000);
    const late = await waiting;
    assert.equal(late.status, 400, path);
    assert.match(await late.text(), /more than 10 s/);
    const flood = new ReadableStream<Uint8Array>({
      pull: (controller) => controller.enqueue(new Uint8Array(16_384).fill(32)),
    });
    assert.equal((await post(flood)).status, 413, path);
    const broken = new ReadableStream<Uint8Array>({ pull: (controller) => controller.error(new TypeError("reset")) });
    assert.equal((await post(broken)).status, 400, path);
  }
  assert.deepEqual([box.asked, box.defects], [[], []]);
});
