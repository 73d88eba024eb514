/** The card from outside: REST on the unix socket of the demo, through the Worker's writer, to the simulated card. */
import assert from "node:assert/strict";
import { FROM_SOURCE, RunningService, socketIn } from "./running_service.ts";

interface Lever {
  readonly lever: string;
  readonly wanted: unknown;
  readonly read_back: unknown;
  readonly verdict: string;
}

interface Answer {
  readonly status: number;
  // deno-lint-ignore no-explicit-any -- a test reads what the schema promises
  readonly body: any;
}

Deno.test("set, tried, reverted, refused and restored: the card's story over the unix socket", async () => {
  const folder = await Deno.makeTempDir({ prefix: "hyperswap-card-" });
  try {
    // The demo lets everybody do everything unless it is told otherwise, as it is here.
    const config = `${folder}/hyperswap.toml`;
    await Deno.writeTextFile(config, '[access]\nloopback = ["read", "operate"]\n');
    const flags = ["--config", config];
    await using service = await RunningService.start(FROM_SOURCE, { command: "demo", folder, flags });
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socketIn(folder) } });
    const ask = async (route: string, body?: unknown): Promise<Answer> => {
      const [method = "GET", path = "/"] = route.split(" ");
      const init: RequestInit & { client: Deno.HttpClient } = {
        client,
        method,
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      };
      const response = await fetch(`http://localhost${path}`, init);
      return { status: response.status, body: await response.json() };
    };
    await service.until("/api/overclock", ({ available }) => available === true);
    await refusesWithoutScope(service.url);
    await setsAndReadsBack(ask);
    await checksAgainstTheCard(ask);
    await triesAndReverts(ask, service);
    await keepsProfiles(ask, folder);
    await restores(ask);
    client.close();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

type Ask = (route: string, body?: unknown) => Promise<Answer>;

/** Loopback without credentials may not tune; the refusal names the setting that grants it. */
async function refusesWithoutScope(url: string): Promise<void> {
  const body = JSON.stringify({ mode: "manual", percent: 50 });
  const headers = { "content-type": "application/json" };
  const response = await fetch(`${url}/api/gpu/fan`, { method: "POST", body, headers });
  const { error } = await response.json();
  assert.deepEqual([response.status, error.code], [403, "forbidden"]);
  assert.match(error.hint, /access\.loopback = \["read", "operate", "tune"\]/);
}

async function setsAndReadsBack(ask: Ask): Promise<void> {
  const fan = await ask("POST /api/gpu/fan", { mode: "manual", percent: 60 });
  assert.deepEqual(rows(fan), [["fan", 60, 60, "honoured"]]);
  const { body } = await ask("GET /api/gpu/fan");
  assert.deepEqual([body.mode, body.target_pct], ["manual", 60]);
  const applied = await ask("POST /api/overclock/apply", { profile: "comfy" });
  assert.deepEqual(rows(applied)[0], ["power_limit_w", 370, 370, "honoured"]);
  const { body: overclock } = await ask("GET /api/overclock");
  assert.deepEqual([overclock.active_profile, overclock.active_by], ["comfy", "operator"]);
  // Applying a profile takes what was set by hand with it.
  assert.equal((await ask("GET /api/gpu/fan")).body.mode, "auto");
}

async function checksAgainstTheCard(ask: Ask): Promise<void> {
  const refusals: readonly (readonly [string, unknown, number, string])[] = [
    ["POST /api/gpu/fan", { mode: "manual" }, 400, "invalid_input"],
    ["POST /api/gpu/fan", { mode: "manual", percent: 20 }, 400, "invalid_input"],
    ["POST /api/overclock/apply", { profile: "nope" }, 404, "not_found"],
    ["POST /api/overclock/lever", { lever: "power_limit_w", value: 900 }, 400, "invalid_input"],
    ["POST /api/overclock/profile", { name: "ollama", fan: 50 }, 400, "invalid_input"],
    ["POST /api/overclock/profile", { name: "fast", power_limit_w: "much" }, 400, "invalid_input"],
    ["DELETE /api/overclock/profile/comfy", undefined, 400, "invalid_input"],
    ["POST /api/overclock/confirm", {}, 404, "not_found"],
    ["POST /api/governor", {}, 400, "invalid_input"],
  ];
  for (const [route, body, status, code] of refusals) {
    const answer = await ask(route, body);
    assert.deepEqual([answer.status, answer.body.error?.code], [status, code], `${route} ${JSON.stringify(body)}`);
    assert.notEqual(answer.body.error.hint ?? "", "", `${route} says what helps`);
  }
}

async function triesAndReverts(ask: Ask, service: RunningService): Promise<void> {
  const tried = await ask("POST /api/overclock/lever", { lever: "power_limit_w", value: 300, confirm_within_s: 1 });
  assert.deepEqual(rows(tried), [["power_limit_w", 300, 300, "honoured"]]);
  await service.until("/api/overclock", (body) => {
    const power = (body["levers"] as readonly Lever[]).find(({ lever }) => lever === "power_limit_w"); // by its schema
    return body["confirm"] === null && power?.read_back === 370;
  });
  await ask("POST /api/overclock/lever", { lever: "power_limit_w", value: 300, confirm_within_s: 60 });
  assert.equal((await ask("POST /api/overclock/confirm", {})).status, 200);
  assert.equal((await ask("GET /api/overclock")).body.confirm, null);
}

async function keepsProfiles(ask: Ask, folder: string): Promise<void> {
  const saved = await ask("POST /api/overclock/profile", { name: "quiet", power_limit_w: 250, core_offset_mhz: 50 });
  assert.equal(saved.status, 200);
  assert.deepEqual(rows(await ask("POST /api/overclock/apply", { profile: "quiet" })), [
    ["power_limit_w", 250, 250, "honoured"],
    ["core_offset_mhz", 50, 50, "honoured"],
  ]);
  const { profiles } = JSON.parse(await Deno.readTextFile(`${folder}/state/tuning.json`));
  assert.deepEqual(profiles.map(({ name }: { name: string }) => name), ["quiet"]);
  assert.equal((await ask("DELETE /api/overclock/profile/quiet")).status, 200);
  assert.equal((await ask("POST /api/overclock/apply", { profile: "quiet" })).status, 404);
}

async function restores(ask: Ask): Promise<void> {
  const restored = await ask("POST /api/overclock/restore", {});
  assert.equal(restored.body.levers.length, 6);
  for (const [lever, wanted, , verdict] of rows(restored)) {
    assert.deepEqual([wanted, verdict], ["stock", "honoured"], lever);
  }
  const { body } = await ask("GET /api/history?kind=profile&limit=5");
  assert.equal(body.events[0].cause, "restore");
  const { body: governor } = await ask("POST /api/governor", { enabled: false });
  assert.deepEqual([governor.enabled, governor.level, governor.history[0].reason], [false, 0, "Disabled by hand"]);
}

function rows({ body }: Answer): readonly (readonly [string, unknown, unknown, string])[] {
  return body.levers.map((row: Lever) => [row.lever, row.wanted, row.read_back, row.verdict] as const);
}
