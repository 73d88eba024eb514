import assert from "node:assert/strict";
import { directHosts } from "../../lib/config/environment.ts";

const LOOPBACK = "localhost,127.0.0.0/8,::1";

Deno.test("loopback is added to what a proxy is kept from, and only where there is one", () => {
  assert.equal(directHosts({}), null);
  assert.equal(directHosts({ HTTP_PROXY: "", NO_PROXY: "example.com" }), null);
  for (const name of ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"]) {
    assert.equal(directHosts({ [name]: "http://proxy:3128" }), LOOPBACK, name);
  }
  const proxied = { HTTP_PROXY: "http://proxy:3128" };
  assert.equal(directHosts({ ...proxied, NO_PROXY: "example.com, localhost" }), `example.com,${LOOPBACK}`);
  assert.equal(directHosts({ ...proxied, no_proxy: "example.com" }), `example.com,${LOOPBACK}`);
  assert.equal(directHosts({ ...proxied, NO_PROXY: "*" }), null);
  assert.equal(directHosts({ ...proxied, NO_PROXY: `${LOOPBACK},x` }), null);
});
