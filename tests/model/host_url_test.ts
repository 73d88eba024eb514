import assert from "node:assert/strict";
import { hostUrl } from "../../lib/model/host_url.ts";

Deno.test("every address that can be listened on is a URL that can be asked", () => {
  assert.equal(hostUrl("127.0.0.1", 9090), "http://127.0.0.1:9090");
  assert.equal(hostUrl("box.lan", 80), "http://box.lan:80");
  assert.equal(hostUrl("0.0.0.0", 9090), "http://127.0.0.1:9090");
  assert.equal(hostUrl("::", 9090), "http://[::1]:9090");
  assert.equal(new URL(hostUrl("fe80::1", 9090)).hostname, "[fe80::1]");
});
