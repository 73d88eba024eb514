import assert from "node:assert/strict";
import { loadConfig } from "../../lib/config/load.ts";
import { type Places, placesOf } from "../../lib/config/places.ts";

function places(
  env: Readonly<Record<string, string>>,
  options: { readonly isRoot?: boolean; readonly flags?: Readonly<Record<string, string>> } = {},
): Places {
  const readFile = () => {
    throw new Deno.errors.NotFound("none");
  };
  return placesOf(loadConfig({ flags: options.flags ?? {}, env, readFile }), options.isRoot ?? false);
}

const SYSTEM = "/run/hyperswap/hyperswap.sock";

Deno.test("a system unit has its places from systemd", () => {
  const env = { STATE_DIRECTORY: "/var/lib/hyperswap", RUNTIME_DIRECTORY: "/run/hyperswap", HOME: "/root" };
  assert.deepEqual(places(env, { isRoot: true }), {
    stateDir: "/var/lib/hyperswap",
    socketPath: SYSTEM,
    databasePath: "/var/lib/hyperswap/history.sqlite",
    clientSockets: [SYSTEM],
  });
});

Deno.test("root without systemd uses the same places", () => {
  assert.equal(places({}, { isRoot: true }).stateDir, "/var/lib/hyperswap");
  assert.equal(places({}, { isRoot: true }).socketPath, SYSTEM);
});

Deno.test("a user has places of their own, and looks for the machine's service too", () => {
  const env = { HOME: "/home/me", XDG_RUNTIME_DIR: "/run/user/1000" };
  assert.deepEqual(places(env), {
    stateDir: "/home/me/.local/state/hyperswap",
    socketPath: "/run/user/1000/hyperswap.sock",
    databasePath: "/home/me/.local/state/hyperswap/history.sqlite",
    clientSockets: ["/run/user/1000/hyperswap.sock", SYSTEM],
  });
  assert.equal(places({ ...env, XDG_STATE_HOME: "/data" }).stateDir, "/data/hyperswap");
});

Deno.test("without a runtime folder the socket lies with the state", () => {
  assert.equal(places({ HOME: "/home/me" }).socketPath, "/home/me/.local/state/hyperswap/hyperswap.sock");
});

Deno.test("what is configured comes before all of them, and is the only place looked at", () => {
  const env = { STATE_DIRECTORY: "/a", RUNTIME_DIRECTORY: "/b", HOME: "/home/me" };
  const { stateDir, socketPath, clientSockets } = places(env, { flags: { "state-dir": "/c", socket: "/d/s.sock" } });
  assert.deepEqual([stateDir, socketPath, clientSockets], ["/c", "/d/s.sock", ["/d/s.sock"]]);
});
