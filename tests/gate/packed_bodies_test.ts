/** Bodies that came packed, or in another charset: read where they can be, held where they can't, passed on as they came. */
import assert from "node:assert/strict";
import { openScene, requestText } from "./gate_scene.ts";

for (const coding of ["gzip", "deflate"] as const) {
  Deno.test(`a body in ${coding}, as ComfyUI takes it: what it says is known, and it passes as it came`, async () => {
    await using scene = await openScene({ tenant: "comfyui" });
    const packed = async (body: string) =>
      new Uint8Array(
        await new Response(new Blob([body]).stream().pipeThrough(new CompressionStream(coding))).arrayBuffer(),
      );
    const send = async (body: Uint8Array) => {
      const client = await scene.client();
      const headers = [`Content-Encoding: ${coding}`, `Content-Length: ${body.length}`];
      await client.send(requestText("POST /prompt", { headers }));
      await client.send(body);
      return client;
    };
    const killer = await send(await packed('{"prompt":{},"client_id":[1]}'));
    await killer.see("client_id is a list");
    const body = await packed('{"prompt":{"1":{"inputs":{"ckpt_name":"a.safetensors"}}}}');
    await send(body);
    const offer = await scene.admission.next(0);
    assert.deepEqual(offer.request.files, ["a.safetensors"]);
    offer.pass();
    const wire = await scene.upstream.wire(0);
    const head = /^.*?\r\n\r\n/s;
    await wire.until(({ received, bytes }) => bytes === (head.exec(received)?.[0].length ?? Infinity) + body.length);
    assert.ok(wire.received.includes(`Content-Encoding: ${coding}\r\n`));
  });
}

for (
  const field of ["Content-Encoding: zstd", "Content-Encoding: gzip", "Content-Type: application/json; charset=utf-16"]
) {
  Deno.test(`what can't be read here is held as an unknown model: ${field}`, async () => {
    await using scene = await openScene();
    const client = await scene.client();
    await client.send(requestText("POST /v1/responses", { headers: [field], body: "\x28packed" }));
    assert.equal((await scene.admission.next(0)).request.model, null);
  });
}
