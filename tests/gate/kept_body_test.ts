/** What is kept of held bodies is given back, however a request ends. */
import assert from "node:assert/strict";
import { ClientConnection } from "../../lib/gate/client_connection.ts";
import { KeptBytes } from "../../lib/gate/kept_body.ts";
import { Socket } from "../../lib/gate/socket.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { answerText, HandAdmission, requestText, Upstream, Wire } from "./gate_scene.ts";
import { inTime } from "./in_time.ts";

const BODY = JSON.stringify({ model: "m", prompt: "x".repeat(100) });
const log = { debug() {}, info() {}, warn() {}, error() {} };

for (
  const end of ["is answered", "is refused", "leaves while held", "leaves in its body", "has broken chunks"] as const
) {
  Deno.test(`a request that ${end} keeps nothing`, async () => {
    await using upstream = new Upstream(async (wire) => {
      await wire.see(BODY);
      await wire.send(answerText("answer"));
    });
    using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const kept = new KeptBytes(1_000);
    const admission = new HandAdmission();
    const [conn, accepted] = await Promise.all([Deno.connect({ port: listener.addr.port }), listener.accept()]);
    const address = { hostnames: ["127.0.0.1"], port: upstream.port };
    const side = { tenant: "ollama" as const, upstream: address, admission, kept, clock: new LabClock(), log };
    const served = new ClientConnection(side, new Socket(accepted)).serve();
    const client = new Wire(conn);
    if (end === "leaves in its body") {
      await client.send(requestText("POST /api/chat", { headers: ["Content-Length: 500"] }) + BODY);
    } else if (end === "has broken chunks") {
      await client.send(requestText("POST /api/chat", { headers: ["Transfer-Encoding: chunked"] }) + "3\r\nabcd\r\n");
      await client.see("400 Bad Request");
    } else {
      await client.send(requestText("POST /api/chat", { body: BODY }));
      const offer = await admission.next(0);
      assert.equal(kept.taken, BODY.length);
      if (end === "is answered") offer.pass();
      if (end === "is refused") offer.decide({ kind: "refused", status: 503, retryAfterS: 1, message: "no" });
      if (end !== "leaves while held") await client.see(end === "is refused" ? "503" : "answer");
    }
    client.close();
    await inTime(served, () => "for the connection to end");
    assert.equal(kept.taken, 0);
  });
}
