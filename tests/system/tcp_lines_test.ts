import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { parseTcp, tcpLines } from "../../lib/system/tcp_lines.ts";

Deno.test("connections to one port are found among all, by the kernel's own numbers", () => {
  const text = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2382 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 11 1 0 100 0 0 10 0
   1: 0100007F:2382 0100007F:C001 01 00000000:00000000 00:00000000 00000000     0        0 12 1 0 20 4 30 10 -1
   2: 0100007F:C001 0100007F:2382 01 00000000:00000000 00:00000000 00000000     0        0 13 1 0 20 4 30 10 -1
   3: 0100007F:2382 0100007F:C002 08 00000000:00000000 00:00000000 00000000     0        0 14 1 0 20 4 30 10 -1
   4: 0100007F:2382 0100007F:C003 06 00000000:00000000 00:00000000 00000000     0        0 0 3 0 20 4 30 10 -1
   5: 0100007F:1F90 0100007F:C004 01 00000000:00000000 00:00000000 00000000     0        0 15 1 0 20 4 30 10 -1
`;
  assert.deepEqual(parseTcp(text, 0x2382), [{ peerPort: 0xC001, inode: "12" }, { peerPort: 0xC002, inode: "14" }]);
  assert.deepEqual(parseTcp("", 80), []);
});

Deno.test("a connection whose head never comes is found and ended; one that is being answered stays", async () => {
  using libc = openLibc();
  const lines = tcpLines(libc);
  const answering = Promise.withResolvers<Response>();
  const asked = Promise.withResolvers<void>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    asked.resolve();
    return answering.promise;
  });
  const { port } = server.addr;
  const [slow, good] = [await Deno.connect({ port }), await Deno.connect({ port })];
  await slow.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\nX-Slow"));
  await good.write(new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"));
  // The later connection is served, so both are out of the kernel's queue.
  await asked.promise;
  // as: both were connected by TCP.
  const slowPort = (slow.localAddr as Deno.NetAddr).port;
  const open = lines.list(port);
  assert.equal(open.filter(({ peerPort }) => peerPort === slowPort).length, 1);
  lines.end(open.filter(({ peerPort }) => peerPort === slowPort));
  assert.equal(await slow.read(new Uint8Array(10)), null, "it is still open");
  answering.resolve(new Response("well"));
  assert.match(await new Response(good.readable).text(), /well$/);
  slow.close();
  await server.shutdown();
});
