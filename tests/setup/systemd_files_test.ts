import assert from "node:assert/strict";
import { parse } from "smol-toml";
import { configKeys } from "../../lib/config/keys.ts";
import { ConfigSchema } from "../../lib/config/schema.ts";

const read = (name: string) => Deno.readTextFileSync(new URL(`../../systemd/${name}`, import.meta.url));

/** The example with what it has commented out; comments in words stay. */
function uncommented(text: string): string {
  return text.replaceAll(/^# (?=(?:"[^"]+"|\w+) = |\[)/gm, "");
}

Deno.test("the example configuration changes nothing as it stands", () => {
  assert.deepEqual(ConfigSchema.parse(parse(read("hyperswap.toml"))), ConfigSchema.parse({}));
});

Deno.test("with every line in force it has each key once, at its default", () => {
  const text = uncommented(read("hyperswap.toml"));
  const { needs, access, ...rest } = ConfigSchema.parse(parse(text));
  const { needs: _needs, access: defaultAccess, ...defaults } = ConfigSchema.parse({});
  assert.deepEqual(rest, defaults);
  assert.deepEqual({ ...access, tokens: [] }, defaultAccess);
  assert.deepEqual(access.tokens.map(({ name, scopes }) => ({ name, scopes })), [{
    name: "grafana",
    scopes: ["read"],
  }]);
  assert.deepEqual(Object.keys(needs), ["qwen3:32b", "comfyui"]);
  const tree = parse(text);
  for (const { path, description } of configKeys()) {
    const [section = "", name = ""] = path.split(".");
    const table = tree[section];
    assert.ok(typeof table === "object" && name in table, `${path} is missing`);
    assert.ok(text.includes(`# ${description}\n${name} = `), `${path} says something else than the schema`);
  }
});

Deno.test("the kernel settings are those the page cache needs", () => {
  const settings = read("99-hyperswap.conf").split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  assert.deepEqual(settings, [
    "vm.vfs_cache_pressure = 50",
    "vm.swappiness = 10",
    "vm.max_map_count = 1048576",
    "vm.dirty_background_ratio = 5",
    "vm.dirty_ratio = 10",
  ]);
});

Deno.test("before a sleep the fans are asked back, and no machine is kept awake for it", () => {
  const lines = read("hyperswap-sleep.service").split("\n");
  const command = lines.find((line) => line.startsWith("ExecStart="));
  assert.match(command ?? "", /^ExecStart=-\/\S+\/hyperswap restore --scope fans$/);
  for (const wanted of ["Before=sleep.target", "WantedBy=sleep.target", "TimeoutStartSec=5"]) {
    assert.ok(lines.includes(wanted), wanted);
  }
});

Deno.test("the unit is watched, has no memory limit, and says what each capability is for", () => {
  const lines = read("hyperswap.service").split("\n");
  for (const wanted of ["Type=notify", "WatchdogSec=30", "StateDirectory=hyperswap", "RuntimeDirectory=hyperswap"]) {
    assert.ok(lines.includes(wanted), wanted);
  }
  assert.deepEqual(lines.filter((line) => /^Memory(Max|High|Limit)/.test(line)), []);
  const capabilities = lines.flatMap((line, at) =>
    line.startsWith("CapabilityBoundingSet=") ? [{ name: line.split("=")[1] ?? "", at }] : []
  );
  assert.ok(capabilities.length > 0);
  for (const { name, at } of capabilities) {
    const comment = lines.slice(at - 2, at).join("\n");
    assert.ok(comment.includes(`Without ${name}`), `${name}: what is lost without it?`);
  }
  // V8 compiles as it runs.
  assert.ok(!lines.some((line) => line.startsWith("MemoryDenyWriteExecute")));
});
