import assert from "node:assert/strict";
import { openDoor, SOCKET, STRANGER } from "./rest_door.ts";
import type { AskOptions, OpenDoor } from "./rest_door.ts";

/** A link as the socket's owner gets it. */
async function linkOf(open: OpenDoor, body: unknown = {}): Promise<string> {
  const answer = await open.ask("POST /api/login/link", { peer: SOCKET, body });
  assert.equal(answer.status, 200, answer.text);
  assert.match(answer.json.path, /^\/login#[0-9a-f]{64}$/);
  return answer.json.path.split("#")[1];
}

/** The cookie that a browser keeps after the login, as it sends it. */
async function logIn(open: OpenDoor, code: string, options: AskOptions = {}): Promise<string> {
  const answer = await open.ask("POST /api/login", { ...options, body: { code } });
  assert.equal(answer.status, 200, answer.text);
  const cookie = answer.headers.get("set-cookie") ?? "";
  assert.match(cookie, /^hyperswap_9090=[0-9a-f]{64}; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
  assert.ok(!answer.text.includes(cookie.slice(15, 60)), "a script could read the secret");
  return cookie.split(";")[0] ?? "";
}

const FAN = { body: { mode: "auto" } };

Deno.test("a link becomes a cookie once, and the cookie does what the link was made for", async () => {
  const open = openDoor();
  assert.equal((await open.ask("POST /api/gpu/fan", FAN)).status, 403);
  const code = await linkOf(open);
  const cookie = await logIn(open, code);
  assert.equal((await open.ask("POST /api/gpu/fan", { ...FAN, headers: { cookie } })).status, 200);
  assert.equal(
    (await open.ask("POST /api/login/link", { headers: { cookie }, body: {} })).status,
    403,
    "it isn't admin",
  );
  const again = await open.ask("POST /api/login", { body: { code } });
  assert.equal(again.status, 401);
  assert.match(again.json.error.hint, /hyperswap dashboard/);
  assert.equal(again.headers.get("set-cookie"), null);
});

Deno.test("only who may administer makes links", async () => {
  const open = openDoor();
  assert.equal((await open.ask("POST /api/login/link", { body: {} })).status, 403);
  assert.equal((await open.ask("POST /api/login/link", { body: {}, peer: STRANGER })).status, 401);
});

Deno.test("a cookie works from elsewhere, and only with the scopes it was given", async () => {
  const open = openDoor();
  const cookie = await logIn(open, await linkOf(open, { scopes: ["read"] }), { peer: STRANGER });
  const from = { peer: STRANGER, headers: { cookie } };
  assert.equal((await open.ask("GET /api/gpu", from)).status, 200);
  assert.equal((await open.ask("POST /api/comfy-free", from)).status, 403);
  const stream = await open.request("GET /api/stream", from);
  assert.equal(stream.status, 200, "EventSource sends nothing but its cookie");
  await stream.body?.cancel();
  // On this machine it takes nothing away from what everybody there may do.
  assert.equal((await open.ask("POST /api/comfy-free", { headers: { cookie } })).status, 200);
});

Deno.test("links get old, logins end", async () => {
  const open = openDoor();
  const { clock } = open.box;
  const late = await linkOf(open);
  await clock.advance(5 * 60_000);
  assert.equal((await open.ask("POST /api/login", { body: { code: late } })).status, 401);
  const cookie = await logIn(open, await linkOf(open));
  const may = async () => (await open.ask("GET /api/gpu", { peer: STRANGER, headers: { cookie } })).status;
  assert.equal(await may(), 200);
  const out = await open.ask("POST /api/logout", { headers: { cookie }, body: {} });
  assert.match(out.headers.get("set-cookie") ?? "", /^hyperswap_9090=; Path=\/; Max-Age=0/);
  assert.equal(await may(), 401);
  const other = await logIn(open, await linkOf(open));
  await clock.advance(12 * 3_600_000);
  assert.equal((await open.ask("GET /api/gpu", { peer: STRANGER, headers: { cookie: other } })).status, 401);
});

Deno.test("guesses, junk and other cookies are no login", async () => {
  const open = openDoor();
  const code = await linkOf(open);
  for (const body of [{}, { code: "" }, { code: 1 }, { code: null }, { code: [code] }, { code, more: 1 }]) {
    assert.equal((await open.ask("POST /api/login", { body })).status, 400, JSON.stringify(body));
  }
  for (const wrong of ["x", code.slice(1), `${code}0`, code.toUpperCase(), "__proto__"]) {
    if (wrong !== code) assert.equal((await open.ask("POST /api/login", { body: { code: wrong } })).status, 401, wrong);
  }
  const secret = (await logIn(open, code)).split("=")[1];
  for (const cookie of [`hyperswap_1=${secret}`, `hyperswap_9090=x`, `hyperswap_9090=`, `a=hyperswap_9090=${secret}`]) {
    assert.equal((await open.ask("GET /api/gpu", { peer: STRANGER, headers: { cookie } })).status, 401, cookie);
  }
  assert.equal((await open.ask(`GET /api/gpu?hyperswap_9090=${secret}`, { peer: STRANGER })).status, 401);
  const authorization = `Bearer ${secret}`;
  assert.equal((await open.ask("GET /api/gpu", { peer: STRANGER, headers: { authorization } })).status, 401);
});

Deno.test("another site's page neither logs in nor uses a login", async () => {
  const open = openDoor();
  const code = await linkOf(open);
  const cookie = await logIn(open, await linkOf(open));
  const foreign: Record<string, string>[] = [
    { origin: "http://evil.example" },
    { origin: "http://127.0.0.1:8188" },
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors" },
    { "sec-fetch-site": "same-site", "sec-fetch-mode": "cors" },
    { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe" },
  ];
  for (const headers of foreign) {
    const with_ = (line: string, body?: unknown) =>
      open.ask(line, { headers: { ...headers, cookie }, ...(body === undefined ? {} : { body }) });
    for (const line of ["GET /api/stats", "GET /api/stream", "GET /docs", "GET /", "GET /api/gpu/fan"]) {
      assert.equal((await with_(line)).status, 403, `${line} ${JSON.stringify(headers)}`);
    }
    assert.equal((await with_("POST /api/gpu/fan", FAN.body)).status, 403);
    assert.equal((await with_("POST /api/login", { code })).status, 403);
    assert.equal((await with_("POST /mcp", {})).status, 403);
  }
  const link = { "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document" };
  assert.equal((await open.ask("GET /", { headers: link })).status, 200, "a link to the dashboard didn't open it");
  assert.equal(
    (await open.ask("POST /api/comfy-free", { headers: link })).status,
    403,
    "a form was posted from elsewhere",
  );
  const own = { "sec-fetch-site": "same-origin", "sec-fetch-mode": "cors", origin: "http://127.0.0.1:9090", cookie };
  assert.equal((await open.ask("POST /api/gpu/fan", { ...FAN, headers: own })).status, 200);
});

Deno.test("the login page works under its own policy: no inline script, the code never in a request's line", async () => {
  const open = openDoor();
  const page = await open.ask("GET /login");
  assert.equal(page.status, 200);
  assert.match(page.headers.get("content-type") ?? "", /^text\/html/);
  assert.match(page.headers.get("content-security-policy") ?? "", /default-src 'self'/);
  assert.ok(!/<script>|onload=|style=/.test(page.text));
  const script = await open.ask("GET /login/start.js");
  assert.match(script.headers.get("content-type") ?? "", /^text\/javascript/);
  assert.match(script.text, /replaceState/);
});
