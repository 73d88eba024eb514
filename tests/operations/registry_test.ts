import assert from "node:assert/strict";
import { feeds, operationNamed, operations } from "../../lib/operations/registry.ts";
import { FEEDS, ROUTES } from "../../lib/operations/routes.ts";

/** What the drift between documents and code is measured against: method, path, tool, command (OPERATIONS). */
const CONTRACT: readonly (readonly [string, string, string | null, string | null])[] = [
  ["stats", "GET /api/stats", null, "status"],
  ["gpu", "GET /api/gpu", "get_gpu_status", "gpu"],
  ["memory", "GET /api/memory", "get_host_memory_status", "memory"],
  ["models", "GET /api/models", "list_available_models", "models"],
  ["cache-report", "GET /api/cache/report", "get_page_cache_residency", "cache"],
  ["warm-plan", "GET /api/warm-plan", "get_warm_plan", "warm plan"],
  ["arbitration", "GET /api/arbitration", "get_arbitration", "arbitration"],
  ["why", "GET /api/why", "explain_decision", "why"],
  ["plan", "GET /api/plan", "plan_workload", "plan"],
  ["footprints", "GET /api/footprints", "get_footprints", "footprints"],
  ["history", "GET /api/history", "get_switch_history", "history"],
  ["analytics-profiles", "GET /api/analytics/profiles", "get_profile_performance", "analytics profiles"],
  ["analytics-swaps", "GET /api/analytics/swaps", "get_swap_statistics", "analytics swaps"],
  ["analytics-timeseries", "GET /api/analytics/timeseries", "get_timeseries", "analytics timeseries"],
  ["analytics-models", "GET /api/analytics/models", "get_model_ranking", "analytics models"],
  ["db", "GET /api/db", "get_store_status", "db"],
  ["health", "GET /api/health", "get_health", "health"],
  ["runs", "GET /api/runs", null, "runs"],
  ["run", "GET /api/runs/{id}", "get_run", "runs get"],
  ["version", "GET /api/version", null, null],
  ["switch-model", "POST /api/switch-model", "switch_ollama_model", "switch"],
  ["free-vram", "POST /api/free-vram", "soft_yield_ollama_vram", "yield"],
  ["comfy-free", "POST /api/comfy-free", "purge_comfyui_vram", "purge"],
  ["request-vram", "POST /api/request-vram", "request_vram_for_ollama", "request-vram"],
  ["end-runner", "POST /api/runners/end", "end_stuck_runner", "runner end"],
  ["warm-all", "POST /api/warm-all", "prewarm_all_models_to_ram", "warm all"],
  ["warm-model", "POST /api/warm-model", "prewarm_single_model", "warm file"],
  ["warm-cancel", "POST /api/warm/cancel", null, "warm cancel"],
  ["pin", "POST /api/cache/pin", null, "cache pin"],
  ["unpin", "POST /api/cache/unpin", null, "cache unpin"],
  ["set-pinned", "POST /api/cache/pinned", "set_pinned_models", null],
  ["benchmark", "POST /api/benchmark", "run_model_switch_benchmark", "benchmark"],
  ["set-arbitration", "POST /api/arbitration", "set_arbitration_mode", "arbitration set"],
  ["fan", "GET /api/gpu/fan", "get_gpu_fan_status", "fan"],
  ["set-fan", "POST /api/gpu/fan", "set_gpu_fan_speed", "fan set"],
  ["overclock", "GET /api/overclock", "get_overclock_status", "overclock"],
  ["apply-profile", "POST /api/overclock/apply", "apply_overclock_profile", "overclock apply"],
  ["save-profile", "POST /api/overclock/profile", "save_overclock_profile", "overclock save"],
  ["delete-profile", "DELETE /api/overclock/profile/{name}", "delete_overclock_profile", "overclock delete"],
  ["set-lever", "POST /api/overclock/lever", "set_gpu_lever", "overclock set"],
  ["confirm-change", "POST /api/overclock/confirm", "confirm_change", "overclock confirm"],
  ["restore", "POST /api/overclock/restore", "restore_stock_gpu_state", "restore"],
  ["governor", "GET /api/governor", "get_thermal_governor_status", "governor"],
  ["set-governor", "POST /api/governor", "set_thermal_governor", "governor set"],
  ["autotune", "GET /api/autotune", "get_autotune_status", "autotune"],
  ["autotune-sweep", "POST /api/autotune/sweep", "run_overclock_sweep", "autotune sweep"],
  ["autotune-cancel", "POST /api/autotune/cancel", null, "autotune cancel"],
  ["cancel-run", "POST /api/runs/{id}/cancel", "cancel_run", "runs cancel"],
];

Deno.test("paths, tools and commands are those that users know", () => {
  const actual = operations.map(({ name, http, tool, cli }) => [
    name,
    `${http.method} ${http.path}`,
    tool === false ? null : tool.name,
    cli === false ? null : cli.words.join(" "),
  ]);
  assert.deepEqual(actual, CONTRACT);
});

Deno.test("the table of routes equals the registry", () => {
  const routesOf = (list: readonly { name: string; http: { method: string; path: string } }[]) =>
    Object.fromEntries(list.map(({ name, http: { method, path } }) => [name, { method, path }]));
  assert.deepEqual(routesOf(operations), ROUTES);
  assert.deepEqual(routesOf(feeds), FEEDS);
});

Deno.test("names, routes, tools and commands are unique", () => {
  for (const column of [0, 1, 2, 3] as const) {
    const names = CONTRACT.map((row) => row[column]).filter((name) => name !== null);
    assert.equal(new Set(names).size, names.length);
  }
});

Deno.test("reads only read: nothing that needs more than read is a GET", () => {
  for (const { name, access, http } of operations) assert.equal(http.method === "GET", access === "read", name);
});

Deno.test("every positional, alias, path and query name is a parameter, and no alias hides one", () => {
  for (const { name, cli, aliases, http, parameters } of operations) {
    const known = new Set(parameters.map((parameter) => parameter.name));
    const inPath = [...http.path.matchAll(/\{(\w+)\}/g)].map(([, parameter]) => parameter!);
    const mentioned = [
      ...(cli === false ? [] : cli.positional ?? []),
      ...Object.values(aliases),
      ...inPath,
      ...(http.query ?? []),
    ];
    for (const mention of mentioned) assert.ok(known.has(mention), `${name} has no parameter ${mention}`);
    for (const alias of Object.keys(aliases)) assert.ok(!known.has(alias), `${name}: ${alias} is alias and parameter`);
  }
});

Deno.test("parameters are described, with their defaults and bounds", () => {
  for (const { name, parameters } of operations) {
    for (const parameter of parameters) assert.notEqual(parameter.description, "", `${name} ${parameter.name}`);
  }
  const limit = operationNamed("history").parameters.find(({ name }) => name === "limit");
  assert.deepEqual(limit && [limit.kind, limit.default, limit.minimum, limit.maximum], ["integer", 20, 1, 1000]);
  assert.throws(() => operationNamed("stat"), /no such|named stat/);
});
