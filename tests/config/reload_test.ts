import assert from "node:assert/strict";
import { configKeys } from "../../lib/config/keys.ts";
import { LiveSettings, reloadText } from "../../lib/config/live_settings.ts";
import { loadConfig, type Loaded } from "../../lib/config/load.ts";
import { reloadOf } from "../../lib/config/reload.ts";

function load(toml: string): Loaded {
  return loadConfig({ flags: { config: "x.toml" }, env: {}, readFile: () => toml });
}

const STOCK = load("").config;

Deno.test("what changes while it runs is told apart from what waits for a start", () => {
  const next = load(`
    [server]
    port = 9191
    [comfyui]
    idle_purge_s = 5
    folders = ["/models"]
    [arbitration]
    keep = ["a"]
    [warm]
    roots = ["/x"]
    idle_s = 90
    [needs]
    a = 1
    [[access.tokens]]
    name = "n"
    secret = "0123456789abcdef"
    scopes = ["read"]
  `).config;
  const { applied, waiting } = reloadOf(STOCK, next);
  assert.deepEqual(
    new Set(applied),
    new Set([
      ...["arbitration.keep", "comfyui.idle_purge_s", "needs", "warm.idle_s", "access.tokens"],
    ]),
  );
  assert.deepEqual(new Set(waiting), new Set(["server.port", "comfyui.folders", "warm.roots"]));
  assert.deepEqual(reloadOf(next, next), { applied: [], waiting: [] });
});

Deno.test("every key is one or the other", () => {
  for (const { path } of configKeys()) {
    const [section = "", name = ""] = path.split(".");
    // Any other value will do: only whether it changed counts.
    const other = { ...STOCK, [section]: { ...Reflect.get(STOCK, section), [name]: "another" } };
    const { applied, waiting } = reloadOf(STOCK, other);
    assert.deepEqual([...applied, ...waiting], [path]);
  }
});

Deno.test("what waits is told until it is taken back; what was taken over counts at once", () => {
  const settings = new LiveSettings(STOCK);
  const { cachePolicy } = settings;
  const next = load('[server]\nport = 9191\n[warm]\nthrottle_mbps = 100\n[log]\nlevel = "debug"\n').config;
  assert.deepEqual(settings.take(next), { applied: ["warm.throttle_mbps", "log.level"], waiting: ["server.port"] });
  assert.deepEqual([cachePolicy.bytesPerS, settings.logLevel], [100e6, "debug"]);
  assert.deepEqual(settings.take(next), { applied: [], waiting: ["server.port"] });
  assert.deepEqual(settings.take(STOCK).waiting, []);
  assert.equal(
    reloadText({ applied: ["log.level"], waiting: ["server.port"] }),
    "The configuration was read again: now in force: log.level; only after a restart: server.port",
  );
});
