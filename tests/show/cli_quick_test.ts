import assert from "node:assert/strict";
import { addressOf } from "../../lib/config/address.ts";
import { askQuickly, quickFlags } from "../../lib/show/cli_quick.ts";

const NEVER = new AbortController().signal;

Deno.test("only a plain status --json is answered quickly", () => {
  const socket = { socket: "/run/x.sock" };
  assert.deepEqual(quickFlags(["--json"]), {});
  assert.deepEqual(quickFlags(["status", "--json", "--socket", "/run/x.sock"]), socket);
  assert.deepEqual(quickFlags(["--socket=/run/x.sock", "--json"]), socket);
  assert.deepEqual(quickFlags(["--json", "--port", "9190", "--token=a=b"]), { port: "9190", token: "a=b" });
  for (
    const line of ["", "status", "--json --watch", "gpu --json", "--json --port", "--json --port=", "--json --help"]
  ) {
    assert.equal(quickFlags(line === "" ? [] : line.split(" ")), null, line);
  }
  assert.equal(quickFlags(["--json", "--port", "1", "--port", "2"]), null);
});

/** One connection, answered with this text whatever it asks; the request is told. */
async function answering(answer: string): Promise<{ readonly asked: string; readonly text: string | null }> {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let asked = "";
  const serve = async () => {
    using connection = await listener.accept();
    const bytes = new Uint8Array(4096);
    asked = new TextDecoder().decode(bytes.subarray(0, await connection.read(bytes) ?? 0));
    const encoded = new TextEncoder().encode(answer);
    // In two pieces that part a character.
    await connection.write(encoded.subarray(0, encoded.length - 5));
    await connection.write(encoded.subarray(encoded.length - 5));
  };
  const served = serve();
  const endpoint = { transport: "tcp" as const, hostname: "127.0.0.1", port: listener.addr.port };
  const got = await askQuickly([endpoint], { token: "secret", signal: NEVER });
  await served;
  return { asked, text: got?.text ?? null };
}

Deno.test("the service's own answer comes through as it is", async () => {
  const body = '{"gpu":{},"arbitration":{},"simulation":null,"name":"é"}';
  const { asked, text } = await answering(`HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n${body}`);
  assert.equal(text, body);
  assert.match(asked, /^GET \/api\/stats HTTP\/1\.0\r\nhost: 127\.0\.0\.1:\d+\r\nauthorization: Bearer secret\r\n/);
});

Deno.test("what isn't plainly the service's answer is left to the full search", async () => {
  const body = '{"gpu":{},"arbitration":{}}';
  for (
    const answer of [
      `HTTP/1.1 401 Unauthorized\r\n\r\n${body}`,
      `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n${body}`,
      `HTTP/1.1 200 OK\r\n\r\n{"gpu":{}}`,
      `HTTP/1.1 200 OK\r\n\r\n{"gpu":`,
      "SSH-2.0-OpenSSH_9.2",
    ]
  ) {
    assert.equal((await answering(answer)).text, null, answer);
  }
  assert.equal(
    await askQuickly([{ transport: "unix", path: "/nonexistent.sock" }], { token: null, signal: NEVER }),
    null,
  );
});

Deno.test("the service is looked for where the whole configuration would look", async () => {
  const home = { HOME: "/home/u", XDG_RUNTIME_DIR: "/run/user/1" };
  const files: Record<string, string> = {};
  const readFile = (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Deno.errors.NotFound(path);
    return text;
  };
  const find = (flags: Parameters<typeof addressOf>[0]["flags"], env: Record<string, string> = {}) =>
    addressOf({ flags, env: { ...home, ...env }, readFile, isRoot: false });
  const own = ["/run/user/1/hyperswap.sock", "/run/hyperswap/hyperswap.sock"];
  assert.deepEqual(await find({}), { sockets: own, tcp: { hostname: "127.0.0.1", port: 9090 }, token: null });
  assert.deepEqual(await find({ socket: "/x" }), { sockets: ["/x"], tcp: null, token: null });
  assert.deepEqual((await find({ port: "9190" }))?.sockets, []);
  assert.deepEqual((await find({}, { HYPERSWAP_SERVER_PORT: "9191", HYPERSWAP_TOKEN: "t" }))?.tcp?.port, 9191);
  files["/etc/hyperswap/hyperswap.toml"] = '[server]\nport = 9300\nstate_dir = "/var/x"\n';
  assert.deepEqual(await find({}), {
    sockets: own.slice(0, 1),
    tcp: { hostname: "127.0.0.1", port: 9300 },
    token: null,
  });
  files["/home/u/.config/hyperswap/hyperswap.toml"] = "# server\n[log]\n";
  assert.equal((await find({}))?.tcp?.port, 9090);
  files["/home/u/.config/hyperswap/hyperswap.toml"] = '[server]\nport = 9301\n[arbitration]\nkeep = ["a"]\n';
  assert.equal((await find({}))?.tcp?.port, 9301);
  // Broken anywhere: the whole configuration tells what is the matter, on this path as on every other.
  for (
    const text of [
      "[servr]\n",
      "[log]\nlevl = 'info'\n",
      "[warm]\nbudget_gb = 'much'\n",
      "[server]\nprot = 9300\n",
      "stray\n",
      "keep = []\n",
    ]
  ) {
    files["/home/u/.config/hyperswap/hyperswap.toml"] = text;
    assert.equal(await find({}), null, text);
  }
  files["/home/u/.config/hyperswap/hyperswap.toml"] = "[server\n";
  for (const [flags, env] of [[{}, {}], [{ port: "0" }, {}], [{ port: "x" }, {}]] as const) {
    assert.equal(await find(flags, env), null);
  }
  assert.equal(await find({}, { HYPERSWAP_SERVR_PORT: "1" }), null);
  assert.equal(await find({}, { HYPERSWAP_CONFIG: "/nonexistent" }), null);
});
