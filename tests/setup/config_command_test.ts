import assert from "node:assert/strict";
import { configCommand } from "../../lib/setup/config_command.ts";
import { serviceFlags } from "../../lib/setup/program.ts";

function run(args: readonly string[], files: Readonly<Record<string, string>> = {}) {
  const readFile = (path: string) => {
    const text = files[path];
    if (text === undefined) throw new Deno.errors.NotFound(`No such file: ${path}`);
    return text;
  };
  return configCommand(args, { env: {}, readFile });
}

const TOKEN = '[[access.tokens]]\nname = "grafana"\nscopes = ["read"]\n';

Deno.test("show gives every value with its source, and no secret", () => {
  const files = {
    "/x.toml": `[server]\nport = 1234\n[needs]\n"qwen3:32b" = 19\n${TOKEN}secret = "hush-hush-hush-hush"\n`,
  };
  const { text, value } = run(["show", "--config", "/x.toml"], files);
  assert.match(text, /server\.port = 1234\n.*\n +from \/x\.toml; HYPERSWAP_SERVER_PORT\n/);
  assert.match(text, /server\.host = "127\.0\.0\.1"\n.*\n +from the default; HYPERSWAP_SERVER_HOST\n/);
  assert.match(text, /needs\."qwen3:32b" = 19\n/);
  assert.match(text, /access\.tokens: .*"name":"grafana"/);
  for (const answer of [text, JSON.stringify(value)]) assert.ok(!answer.includes("hush"), answer);
  assert.deepEqual(run([]).value, run(["show"]).value);
  assert.deepEqual(run(["show", "--json", "--config=/x.toml"], files).value, value);
});

Deno.test("check says fine, or what the service would refuse", () => {
  assert.deepEqual(run(["check"]).value, { ok: true, file: null });
  assert.match(run(["check", "--config=/x.toml"], { "/x.toml": "[server]\nport = 1\n" }).text, /^\/x\.toml: fine\n$/);
  assert.throws(() => run(["check", "--config=/x.toml"], { "/x.toml": "[server]\nport = -1\n" }), /server\.port = -1/);
  const open = { "/x.toml": '[server]\nhost = "0.0.0.0"\n' };
  assert.throws(() => run(["check", "--config=/x.toml"], open), /Cannot listen on 0\.0\.0\.0 without a token/);
  const tokened = { "/x.toml": `${open["/x.toml"]}${TOKEN}secret_file = "/run/t"\n` };
  assert.throws(() => run(["check", "--config=/x.toml"], tokened), /Cannot read the token "grafana" from \/run\/t/);
  assert.match(run(["check", "--config=/x.toml"], { ...tokened, "/run/t": "s" }).text, /fine/);
});

Deno.test("schema is JSON Schema, as text and as value", () => {
  const { text, value } = run(["schema"]);
  assert.deepEqual(JSON.parse(text), value);
  assert.equal(value["type"], "object");
});

Deno.test("words and arguments that it doesn't know are refused with those it does", () => {
  assert.throws(() => run(["shwo"]), /Unknown command "config shwo"/);
  assert.throws(() => run(["show", "--port", "1"]), /Unknown argument "--port"/);
  assert.throws(() => run(["show", "--config", "/x", "/y"]), /Unknown argument "\/y"/);
  assert.throws(() => run(["show", "--config"]), /Unknown argument "--config"/);
});

Deno.test("every flag of the service is described", () => {
  const flags = serviceFlags();
  assert.ok(flags["port"]?.includes("TCP"));
  assert.ok("config" in flags && "state-dir" in flags);
  for (const [flag, description] of Object.entries(flags)) assert.ok(description.length > 10, flag);
});
