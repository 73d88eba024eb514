/**
 * A service that only talks: it serves the dashboard with the real content policy and answers what the test put in.
 * Nothing moves by itself; the test sets the state and pushes it. It shows the page what a live box can't be made to.
 */
import { assets } from "../../static/assets.ts";
import { diffStats, type Frame } from "../../lib/operations/frames.ts";
import { FOOTPRINTS, pastSeries, PROFILES, SWAPS } from "./dashboard_past.ts";
import type { Stats } from "../../lib/operations/stats.ts";
import { CACHE_REPORT, WARM_PLAN } from "./dashboard_cache.ts";
import { viewOverclock } from "../../lib/operations/tuning_view.ts";
import { fakeCard } from "../operations/fake_card.ts";
import { GPU } from "../operations/fake_values.ts";

/** The strictest policy that the page must live with: its own origin, no inline script, no inline style. */
export const CONTENT_POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
  "object-src 'none'";

export interface Reply {
  readonly status: number;
  readonly body: unknown;
}

export interface Fake {
  readonly url: string;
  /** "POST /api/free-vram" → what the next calls get. Others get 404. */
  readonly replies: Map<string, Reply>;
  /** What was asked beyond reads of the page: method, path and body. */
  readonly asked: { readonly route: string; readonly body: unknown }[];
  readonly stats: Stats;
  /** Replaces the state and sends the difference to every open page. */
  push(next: Stats): void;
  /** Ends every open stream, as a restart does; `refuse` answers new ones with that reply. */
  hangUp(refuse?: Reply): void;
  close(): Promise<void>;
}

export function openFake(initial: Stats): Fake {
  let stats = initial;
  let refusal: Reply | null = null;
  const replies = new Map<string, Reply>([
    ["GET /api/health", { status: 200, body: { state: "ok", checks: [] } }],
    ["GET /api/overclock", { status: 200, body: viewOverclock(fakeCard(() => {}).tuning(), GPU) }],
    ["GET /api/analytics/timeseries", { status: 200, body: pastSeries() }],
    ["GET /api/analytics/swaps", { status: 200, body: SWAPS }],
    ["GET /api/analytics/profiles", { status: 200, body: PROFILES }],
    ["GET /api/footprints", { status: 200, body: FOOTPRINTS }],
    ["GET /api/cache/report", { status: 200, body: CACHE_REPORT }],
    ["GET /api/warm-plan", { status: 200, body: WARM_PLAN }],
    ["GET /api/version", { status: 200, body: { service: "hyperswap", version: "0.0.0" } }],
  ]);
  const asked: Fake["asked"][number][] = [];
  const pages = new Set<ReadableStreamDefaultController<Uint8Array>>();

  const stream = () => {
    if (refusal !== null) return json(refusal);
    let page: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        page = controller;
        pages.add(controller);
        // A snapshot is the whole state, which is an object of JSON values.
        controller.enqueue(encode({ event: "snapshot", data: { ...stats } }));
      },
      cancel: () => void pages.delete(page),
    });
    return new Response(body, { headers: { "content-type": "text/event-stream", "cache-control": "no-store" } });
  };

  const answer = async (request: Request): Promise<Response> => {
    const { pathname } = new URL(request.url);
    const asset = assets.get(pathname === "/" ? "index.html" : pathname.slice(1));
    if (asset !== undefined) {
      return new Response(asset, {
        headers: { "content-type": typeOf(pathname), "content-security-policy": CONTENT_POLICY },
      });
    }
    if (pathname === "/api/stream") return stream();
    if (pathname === "/api/stats") return json({ status: 200, body: stats });
    const route = `${request.method} ${pathname}`;
    const text = await request.text();
    asked.push({ route, body: text === "" ? null : JSON.parse(text) });
    return json(replies.get(route) ?? { status: 404, body: { error: { code: "not_found", message: "No such path" } } });
  };

  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, answer);
  const hangUp = (refuse: Reply | null = null) => {
    refusal = refuse;
    for (const page of pages) page.close();
    pages.clear();
  };
  return {
    url: `http://127.0.0.1:${server.addr.port}/`,
    replies,
    asked,
    get stats() {
      return stats;
    },
    push: (next) => {
      const frame = encode({ event: "patch", data: diffStats(stats, next) });
      stats = next;
      for (const page of pages) page.enqueue(frame);
    },
    hangUp: (refuse) => hangUp(refuse),
    close: async () => {
      hangUp();
      await server.shutdown();
    },
  };
}

function encode({ event, data }: Frame): Uint8Array {
  return new TextEncoder().encode(`event: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

function json({ status, body }: Reply): Response {
  return Response.json(body, { status });
}

function typeOf(path: string): string {
  if (path.endsWith(".js")) return "text/javascript; charset=utf-8";
  if (path.endsWith(".css")) return "text/css; charset=utf-8";
  return path.endsWith(".svg") ? "image/svg+xml" : "text/html; charset=utf-8";
}
