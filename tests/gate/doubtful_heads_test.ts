/** What a server might read differently from the gate is answered by the gate, and goes no further. */
import assert from "node:assert/strict";
import { openScene } from "./gate_scene.ts";

for (
  const [what, text] of [
    ["two lengths", "POST /u HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx"],
    [
      "a length and chunks",
      "POST /u HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    ],
    ["a space before the colon", "GET /u HTTP/1.1\r\nHost : h\r\n\r\n"],
    ["a bare line feed", "GET /u HTTP/1.1\r\nHost: h\r\nX: a\nContent-Length: 5\r\n\r\n"],
    ["a bare carriage return", "GET /u HTTP/1.1\r\nHost: h\r\nX: a\rY: b\r\n\r\n"],
    ["a field without a name", "GET /u HTTP/1.1\r\nHost: h\r\n: a\r\n\r\n"],
    ["a folded line", "GET /u HTTP/1.1\r\nHost: h\r\n x\r\n\r\n"],
    ["no HTTP", "\x16\x03\x01\x02\r\n\r\n"],
    ["CONNECT", "CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n"],
    ["a head without end", `GET /u HTTP/1.1\r\nX: ${"x".repeat(70_000)}`],
  ] as const
) {
  Deno.test(`what each side might read differently goes no further: ${what}`, async () => {
    await using scene = await openScene();
    const client = await scene.client();
    await client.send(text);
    assert.match(await client.ended(), /^HTTP\/1\.1 4[0-9]{2} /);
    assert.equal(scene.upstream.wires.length, 0);
  });
}
