import assert from "node:assert/strict";
import { operations } from "../../lib/operations/registry.ts";
import { DEFAULT_ACCESS, isLoopback, refuseBind, refuseWithout } from "../../lib/show/access.ts";
import { LOCAL, openDoor, SOCKET, STRANGER } from "./rest_door.ts";

const SECRET = "s3cret-s3cret-s3cret";
const TOKENS = [
  { name: "grafana", secret: SECRET, scopes: ["read"] as const },
  { name: "admin", secret: "another-long-secret", scopes: ["read", "operate", "tune", "admin"] as const },
];

Deno.test("loopback reads and operates; a stranger does nothing without a token", async () => {
  const { ask, box } = openDoor();
  assert.equal((await ask("GET /api/gpu", { peer: LOCAL })).status, 200);
  assert.equal((await ask("POST /api/comfy-free", { peer: LOCAL })).status, 200);
  for (const { http } of operations) {
    const answer = await ask(`${http.method} ${http.path.replace("{id}", "x")}`, { peer: STRANGER });
    assert.equal(answer.status, 401, http.path);
    assert.equal(answer.headers.get("www-authenticate"), 'Bearer realm="hyperswap"');
  }
  assert.equal((await ask("GET /api/stream", { peer: STRANGER })).status, 401);
  assert.equal((await ask("POST /mcp", { peer: STRANGER, body: {} })).status, 401);
  assert.equal(box.asked.length, 1);
});

Deno.test("what a proxy on this machine passes on is not local", async () => {
  const { ask } = openDoor();
  for (const name of ["x-forwarded-for", "forwarded"]) {
    assert.equal((await ask("GET /api/gpu", { headers: { [name]: "192.0.2.1" } })).status, 401, name);
  }
});

Deno.test("a token has its own scopes, wherever it comes from; a wrong one has none, on loopback too", async () => {
  const { ask } = openDoor({ access: { tokens: TOKENS, loopback: ["read", "operate"] } });
  const bearer = (secret: string) => ({ headers: { authorization: `Bearer ${secret}` } });
  assert.equal((await ask("GET /api/gpu", { ...bearer(SECRET), peer: STRANGER })).status, 200);
  const forbidden = await ask("POST /api/comfy-free", { ...bearer(SECRET), peer: LOCAL });
  assert.equal(forbidden.status, 403);
  assert.match(forbidden.json.error.hint, /token with the scope operate/);
  assert.equal((await ask("POST /api/comfy-free", { ...bearer("another-long-secret"), peer: STRANGER })).status, 200);
  for (
    const authorization of [`Bearer ${SECRET}x`, `Bearer ${SECRET.slice(1)}`, `Basic ${SECRET}`, "Bearer", "Bearer  "]
  ) {
    const answer = await ask("GET /api/gpu", { headers: { authorization }, peer: LOCAL });
    assert.equal(answer.status, 401, authorization);
    assert.ok(!answer.text.includes(SECRET.slice(1, 15)));
  }
  assert.equal((await ask(`GET /api/gpu?token=${SECRET}`, { peer: STRANGER })).status, 401);
  assert.equal((await ask(`GET /api/gpu?token=${SECRET}`, { peer: LOCAL })).status, 400, "a token in a URL was taken");
});

Deno.test("what is missing is named with the setting that grants it", () => {
  const refusal = refuseWithout("tune", new Set(["read", "operate"]), "set-fan");
  assert.equal(refusal?.code, "forbidden");
  assert.match(refusal?.hint ?? "", /access\.loopback = \["read", "operate", "tune"\]/);
  assert.match(refusal?.hint ?? "", /unix socket/);
  assert.deepEqual(refusal?.details, { scope: "tune", granted: ["read", "operate"] });
  assert.equal(refuseWithout("tune", new Set(["tune"]), "set-fan"), null);
});

Deno.test("loopback's scopes are the owner's to narrow", async () => {
  const { ask } = openDoor({ access: { loopback: ["read"] } });
  assert.equal((await ask("GET /api/gpu")).status, 200);
  assert.equal((await ask("POST /api/comfy-free")).status, 403);
  assert.equal((await ask("POST /api/comfy-free", { peer: SOCKET })).status, 200);
});

Deno.test("a foreign Host is refused on every door: DNS rebinding ends here", async () => {
  const { ask, box } = openDoor({ access: { hosts: ["box.lan"] } });
  const lines = [
    ...operations.map(({ http }) => `${http.method} ${http.path}`),
    "GET /",
    "GET /docs",
    "GET /openapi.json",
    "GET /api/stream",
    "POST /mcp",
    "OPTIONS /api/stats",
  ];
  for (const line of lines) {
    const answer = await ask(line, { headers: { host: "evil.example:9090" } });
    assert.equal(answer.status, 403, line);
    assert.match(answer.json.error.hint, /access\.hosts/);
  }
  assert.deepEqual(box.asked, []);
  for (const host of ["localhost:9090", "LOCALHOST", "127.0.0.1:1", "[::1]:9090", "box.lan:9090"]) {
    assert.equal((await ask("GET /api/gpu", { headers: { host } })).status, 200, host);
  }
  for (
    const host of ["127.0.0.1.evil.example", "localhost.evil.example", "evil.example#127.0.0.1", "", "192.0.2.1:9090"]
  ) {
    assert.equal((await ask("GET /api/gpu", { headers: { host } })).status, 403, host);
  }
  assert.equal((await ask("GET /api/gpu", { headers: { host: "anything" }, peer: SOCKET })).status, 200);
});

Deno.test("a foreign Origin is refused, ours is not", async () => {
  const { ask, box } = openDoor();
  for (const origin of ["http://evil.example", "null", "http://127.0.0.1:8188", "https://localhost:9090", "file://"]) {
    for (const line of ["POST /api/comfy-free", "GET /api/stats", "GET /api/stream", "POST /mcp"]) {
      for (const peer of [LOCAL, SOCKET]) {
        assert.equal((await ask(line, { headers: { origin }, peer })).status, 403, `${line} ${origin}`);
      }
    }
  }
  assert.deepEqual(box.asked, []);
  assert.equal((await ask("POST /api/comfy-free", { headers: { origin: "http://127.0.0.1:9090" } })).status, 200);
  // A rebound name would bring an Origin that equals its Host: the Host is what gives it away.
  assert.equal(
    (await ask("GET /api/stats", { headers: { host: "evil.example", origin: "http://evil.example" } })).status,
    403,
  );
});

Deno.test("an address beyond loopback needs a token before it is opened", () => {
  for (const hostname of ["127.0.0.1", "127.8.8.8", "::1", "localhost"]) {
    assert.equal(refuseBind(hostname, DEFAULT_ACCESS), null, hostname);
  }
  for (const hostname of ["0.0.0.0", "::", "192.168.1.5", "box.lan"]) {
    assert.equal(refuseBind(hostname, DEFAULT_ACCESS)?.code, "invalid_input", hostname);
    assert.equal(refuseBind(hostname, { ...DEFAULT_ACCESS, tokens: TOKENS }), null, hostname);
  }
  const weak = { ...DEFAULT_ACCESS, tokens: [{ name: "x", secret: "short", scopes: ["read"] as const }] };
  assert.match(refuseBind("0.0.0.0", weak)?.message ?? "", /shorter than 16/);
});

Deno.test("loopback is 127.0.0.0/8 and ::1, and nothing that merely looks like it", () => {
  for (const address of ["127.0.0.1", "127.255.0.3", "::1", "[::1]", "::ffff:127.0.0.1", "localhost"]) {
    assert.ok(isLoopback(address), address);
  }
  for (const address of ["128.0.0.1", "127.0.0.1.example", "10.0.0.1", "::2", "::ffff:10.0.0.1", ""]) {
    assert.ok(!isLoopback(address), address);
  }
});
