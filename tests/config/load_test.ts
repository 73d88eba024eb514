import assert from "node:assert/strict";
import { loadConfig, type Loaded } from "../../lib/config/load.ts";
import { Failure } from "../../lib/model/failure.ts";

interface Given {
  readonly flags?: Readonly<Record<string, string>>;
  readonly env?: Readonly<Record<string, string>>;
  readonly files?: Readonly<Record<string, string>>;
}

function load({ flags = {}, env = {}, files = {} }: Given): Loaded {
  const readFile = (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Deno.errors.NotFound(`No such file: ${path}`);
    return text;
  };
  return loadConfig({ flags, env, readFile });
}

/** What a configuration that can't be used is told. */
function refusal(given: Given): Failure {
  try {
    load(given);
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    assert.equal(error.code, "invalid_input");
    return error;
  }
  assert.fail("it was accepted");
}

const inFile = (text: string): Given => ({ flags: { config: "/etc/x.toml" }, files: { "/etc/x.toml": text } });

Deno.test("without anything the defaults count", () => {
  const { config, file, origins } = load({});
  assert.equal(config.server.port, 9090);
  assert.equal(config.comfyui.idle_purge_s, 30);
  assert.deepEqual(config.access, { loopback: ["read", "operate"], hosts: [], tokens: [] });
  assert.equal(file, null);
  assert.deepEqual(origins, {});
});

Deno.test("flags come before the environment, that before the file, and each value tells where it is from", () => {
  const file = `
    [server]
    host = "127.0.0.2"
    port = 1
    [ollama]
    url = "http://127.0.0.1:1"
    [needs]
    "qwen3:32b" = 19.5
  `;
  const { config, origins } = load({
    flags: { config: "/etc/x.toml", port: "3" },
    env: { HYPERSWAP_SERVER_PORT: "2", HYPERSWAP_OLLAMA_URL: "http://127.0.0.1:2" },
    files: { "/etc/x.toml": file },
  });
  assert.deepEqual([config.server.host, config.server.port], ["127.0.0.2", 3]);
  assert.equal(config.ollama.url, "http://127.0.0.1:2");
  assert.deepEqual(config.needs, { "qwen3:32b": 19.5 });
  assert.equal(origins["server.host"], "/etc/x.toml");
  assert.equal(origins["server.port"], "flag --port");
  assert.equal(origins["ollama.url"], "HYPERSWAP_OLLAMA_URL");
});

Deno.test("text becomes what its key is", () => {
  const { config } = load({
    env: {
      HYPERSWAP_ARBITRATION_KEEP: "a:latest, b:7b,",
      HYPERSWAP_ARBITRATION_PROCEED_UNCONFIRMED: "no",
      HYPERSWAP_HISTORY_RAW_DAYS: "0.5",
      HYPERSWAP_ACCESS_LOOPBACK: "",
      COMFY_IDLE_PURGE_S: "12",
    },
  });
  assert.deepEqual(config.arbitration.keep, ["a:latest", "b:7b"]);
  assert.equal(config.arbitration.proceed_unconfirmed, false);
  assert.equal(config.history.raw_days, 0.5);
  assert.deepEqual(config.access.loopback, []);
  assert.equal(config.comfyui.idle_purge_s, 12);
});

Deno.test("the file is the one that is named, else the user's, else the machine's", () => {
  const at = (port: number) => `[server]\nport = ${port}\n`;
  const files = {
    "/named": at(1),
    "/from-env": at(2),
    "/home/me/.config/hyperswap/hyperswap.toml": at(3),
    "/etc/hyperswap/hyperswap.toml": at(4),
  };
  const env = { HOME: "/home/me" };
  const port = (given: Given) => load({ files, ...given }).config.server.port;
  assert.equal(port({ flags: { config: "/named" }, env: { ...env, HYPERSWAP_CONFIG: "/from-env" } }), 1);
  assert.equal(port({ env: { ...env, HYPERSWAP_CONFIG: "/from-env" } }), 2);
  assert.equal(port({ env }), 3);
  assert.equal(port({ env: { ...env, XDG_CONFIG_HOME: "/elsewhere" } }), 4);
  assert.equal(port({}), 4);
});

Deno.test("a file of the usual places that this user may not read is done without, a named one is not", () => {
  const readFile = () => {
    throw new Deno.errors.PermissionDenied("not yours");
  };
  assert.equal(loadConfig({ flags: {}, env: {}, readFile }).file, null);
  assert.throws(
    () => loadConfig({ flags: { config: "/etc/x.toml" }, env: {}, readFile }),
    /Cannot read the configuration \/etc\/x.toml: not yours/,
  );
  assert.match(refusal({ flags: { config: "/gone" } }).message, /\/gone/);
});

Deno.test("every wrong value is named with its place, itself, and what is accepted", () => {
  const error = refusal({
    ...inFile(`
      [server]
      port = 70000
      [arbitration]
      mode = "sometimes"
      keep = [1]
      [ollama]
      url = "box:11434"
    `),
    env: { HYPERSWAP_LOG_LEVEL: "loud" },
  });
  const problems = error.details?.["problems"];
  assert.ok(Array.isArray(problems));
  assert.equal(problems.length, 5);
  const text = problems.join("\n");
  assert.match(text, /server\.port = 70000 \(from \/etc\/x\.toml\): .*65535/);
  assert.match(text, /arbitration\.mode = "sometimes" \(from \/etc\/x\.toml\): .*"auto"\|"observe"\|"paused"/);
  assert.match(text, /arbitration\.keep\.0 = 1 \(from \/etc\/x\.toml\): .*string/);
  assert.match(text, /ollama\.url = "box:11434" \(from \/etc\/x\.toml\): .*URL/);
  assert.match(text, /log\.level = "loud" \(from HYPERSWAP_LOG_LEVEL\): .*"debug"/);
});

Deno.test("a host is a name or an address, and nothing beside it", () => {
  for (const host of ["localhost", "box.lan", "0.0.0.0", "::", "::1", "fe80::1:2", "::ffff:127.0.0.1"]) {
    assert.equal(load({ flags: { host } }).config.server.host, host);
  }
  for (const host of ["", "127.0.0.1:9400", "http://127.0.0.1", "[::1]", "a b", "box/x"]) {
    assert.match(refusal({ flags: { host } }).message, /server\.host = .* \(from flag --host\)/, host);
  }
});

Deno.test("a throttle under which a read would pass for a hang is refused, and the least is said", () => {
  const throttled = (mbps: number) => inFile(`[warm]\nthrottle_mbps = ${mbps}\n`);
  for (const mbps of [0, 0.1, 300]) assert.equal(load(throttled(mbps)).config.warm.throttle_mbps, mbps);
  for (const mbps of [0.009, 0.099, -1]) {
    assert.match(refusal(throttled(mbps)).message, /warm\.throttle_mbps = \S+ \(from .*\): takes 0, or 0\.1 and more$/);
  }
});

Deno.test("every unknown key is refused with its path and what was meant", () => {
  const error = refusal(inFile(`
    [server]
    prot = 1
    idle_purge_s = 3
    [sever]
    host = "x"
  `));
  assert.deepEqual(error.details?.["problems"], [
    "unknown key server.prot (from /etc/x.toml). Did you mean server.port?",
    "unknown key server.idle_purge_s (from /etc/x.toml). Did you mean comfyui.idle_purge_s?",
    "unknown key sever (from /etc/x.toml). Did you mean server?",
  ]);
});

Deno.test("an unknown variable of ours is refused, another program's is none of our business", () => {
  assert.equal(refusal({ env: { HYPERSWAP_SERVER_PROT: "1" } }).hint, "Did you mean HYPERSWAP_SERVER_PORT?");
  assert.equal(load({ env: { OLLAMA_HOST: "1.2.3.4", HYPERSWAP_TOKEN: "secret" } }).surroundings.token, "secret");
});

Deno.test("text that is no number or no yes and no is refused by the name that gave it", () => {
  assert.match(
    refusal({ flags: { port: "ninety" } }).message,
    /server\.port = "ninety" \(from flag --port\): takes a number/,
  );
  assert.match(
    refusal({ env: { HYPERSWAP_ARBITRATION_PROCEED_UNCONFIRMED: "maybe" } }).message,
    /proceed_unconfirmed = "maybe" \(from HYPERSWAP_ARBITRATION_PROCEED_UNCONFIRMED\): takes true or false/,
  );
  assert.match(refusal({ env: { HYPERSWAP_SERVER_PORT: "" } }).message, /server\.port = ""/);
});

Deno.test("a file that is no TOML is refused with the line", () => {
  assert.match(refusal(inFile("[server]\nport 9090\n")).message, /Cannot read \/etc\/x\.toml as TOML \(line 2,/);
});

Deno.test("a token needs its secret once, and no refusal shows it", () => {
  const token = (rest: string) => inFile(`[[access.tokens]]\nname = "grafana"\nscopes = ["read"]\n${rest}`);
  assert.equal(load(token('secret_file = "/run/secret"')).config.access.tokens[0]?.secret_file, "/run/secret");
  assert.match(refusal(token("")).message, /access\.tokens\.0.*takes either secret, secret_file or secret_env/);
  const byName = { env: { GRAFANA_TOKEN: "hush-hush-hush-hush" } };
  const named = token('secret_env = "GRAFANA_TOKEN"');
  assert.equal(load({ ...named, ...byName }).config.access.tokens[0]?.secret, "hush-hush-hush-hush");
  assert.equal(load(named).config.access.tokens[0]?.secret, "", "a client of the service needs none");
  const both = refusal(token('secret = "hush-hush"\nsecret_file = "/run/secret"'));
  assert.ok(!both.message.includes("hush-hush"), both.message);
  const wrong = refusal(token("secret = 12345"));
  assert.ok(!wrong.message.includes("12345"), wrong.message);
});

Deno.test("the log is the journal's under systemd, and text for a person", () => {
  const readFile = () => {
    throw new Deno.errors.NotFound("none");
  };
  const format = (env: Readonly<Record<string, string>>, isTerminal: boolean) =>
    loadConfig({ flags: {}, env, readFile, isTerminal }).config.log.format;
  assert.equal(format({ JOURNAL_STREAM: "8:1234" }, false), "journal");
  assert.equal(format({ JOURNAL_STREAM: "8:1234" }, true), "text");
  assert.equal(format({}, false), "text");
  assert.equal(format({ JOURNAL_STREAM: "8:1234", HYPERSWAP_LOG_FORMAT: "json" }, false), "json");
});

Deno.test("what systemd and the desktop say about places is passed on, empty as unsaid", () => {
  const { surroundings } = load({
    env: {
      NOTIFY_SOCKET: "@notify",
      WATCHDOG_USEC: "30000000",
      STATE_DIRECTORY: "/var/lib/hyperswap:/var/lib/other",
      RUNTIME_DIRECTORY: "/run/hyperswap",
      XDG_RUNTIME_DIR: "",
    },
  });
  assert.deepEqual(surroundings, {
    notifySocket: "@notify",
    watchdogUsec: 30_000_000,
    stateDirectory: "/var/lib/hyperswap",
    runtimeDirectory: "/run/hyperswap",
    xdgStateHome: null,
    xdgRuntimeDir: null,
    home: null,
    token: null,
  });
  assert.equal(load({ env: { WATCHDOG_USEC: "soon" } }).surroundings.watchdogUsec, null);
});
