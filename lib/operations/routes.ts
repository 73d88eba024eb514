/**
 * Every operation's method and path, as a plain table without imports: the dashboard's client is made of it, and a test
 * holds it equal to the registry. `{name}` in a path is a parameter.
 */

export type HttpMethod = "GET" | "POST" | "DELETE";

export interface Route {
  readonly method: HttpMethod;
  readonly path: string;
}

/** Operations that answer once. */
export const ROUTES = {
  stats: { method: "GET", path: "/api/stats" },
  gpu: { method: "GET", path: "/api/gpu" },
  memory: { method: "GET", path: "/api/memory" },
  models: { method: "GET", path: "/api/models" },
  arbitration: { method: "GET", path: "/api/arbitration" },
  why: { method: "GET", path: "/api/why" },
  plan: { method: "GET", path: "/api/plan" },
  footprints: { method: "GET", path: "/api/footprints" },
  history: { method: "GET", path: "/api/history" },
  "analytics-profiles": { method: "GET", path: "/api/analytics/profiles" },
  "analytics-swaps": { method: "GET", path: "/api/analytics/swaps" },
  "analytics-timeseries": { method: "GET", path: "/api/analytics/timeseries" },
  "analytics-models": { method: "GET", path: "/api/analytics/models" },
  db: { method: "GET", path: "/api/db" },
  health: { method: "GET", path: "/api/health" },
  runs: { method: "GET", path: "/api/runs" },
  run: { method: "GET", path: "/api/runs/{id}" },
  version: { method: "GET", path: "/api/version" },
  dashboard: { method: "POST", path: "/api/login/link" },
  "switch-model": { method: "POST", path: "/api/switch-model" },
  "free-vram": { method: "POST", path: "/api/free-vram" },
  "comfy-free": { method: "POST", path: "/api/comfy-free" },
  "end-runner": { method: "POST", path: "/api/runners/end" },
  "request-vram": { method: "POST", path: "/api/request-vram" },
  "cache-report": { method: "GET", path: "/api/cache/report" },
  "warm-plan": { method: "GET", path: "/api/warm-plan" },
  "warm-all": { method: "POST", path: "/api/warm-all" },
  "warm-model": { method: "POST", path: "/api/warm-model" },
  "warm-cancel": { method: "POST", path: "/api/warm/cancel" },
  pin: { method: "POST", path: "/api/cache/pin" },
  unpin: { method: "POST", path: "/api/cache/unpin" },
  "set-pinned": { method: "POST", path: "/api/cache/pinned" },
  benchmark: { method: "POST", path: "/api/benchmark" },
  "set-arbitration": { method: "POST", path: "/api/arbitration" },
  fan: { method: "GET", path: "/api/gpu/fan" },
  "set-fan": { method: "POST", path: "/api/gpu/fan" },
  overclock: { method: "GET", path: "/api/overclock" },
  "apply-profile": { method: "POST", path: "/api/overclock/apply" },
  "save-profile": { method: "POST", path: "/api/overclock/profile" },
  "delete-profile": { method: "DELETE", path: "/api/overclock/profile/{name}" },
  "set-lever": { method: "POST", path: "/api/overclock/lever" },
  "confirm-change": { method: "POST", path: "/api/overclock/confirm" },
  restore: { method: "POST", path: "/api/overclock/restore" },
  governor: { method: "GET", path: "/api/governor" },
  "set-governor": { method: "POST", path: "/api/governor" },
  autotune: { method: "GET", path: "/api/autotune" },
  "autotune-sweep": { method: "POST", path: "/api/autotune/sweep" },
  "autotune-cancel": { method: "POST", path: "/api/autotune/cancel" },
  "cancel-run": { method: "POST", path: "/api/runs/{id}/cancel" },
} as const satisfies Readonly<Record<string, Route>>;

/** Live data (server-sent events); frames.ts says how the stream is read. */
export const FEEDS = {
  stream: { method: "GET", path: "/api/stream" },
  "run-events": { method: "GET", path: "/api/runs/{id}/events" },
} as const satisfies Readonly<Record<string, Route>>;

/** Text handed over as it is read. */
export const DOWNLOADS = {
  export: { method: "GET", path: "/api/export" },
} as const satisfies Readonly<Record<string, Route>>;

export type RouteName = keyof typeof ROUTES;
export type FeedName = keyof typeof FEEDS;
