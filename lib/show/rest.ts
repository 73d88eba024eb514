/** REST: the registry as HTTP routes, with the live streams, the dashboard's files and the API's documents beside them. */
import { Hono } from "hono";
import type { Context } from "hono";
import { Failure } from "../model/failure.ts";
import { joinSignals } from "../model/join_signals.ts";
import type { Clock } from "../model/ports.ts";
import type { Services } from "../model/services.ts";
import { ignoreProgress } from "../operations/operation.ts";
import type { Access, Feed, Operation } from "../operations/operation.ts";
import { asFailure, refused, refusedBy } from "../operations/outcome.ts";
import type { Refused, Report } from "../operations/outcome.ts";
import { suggestion } from "../operations/parameters.ts";
import type { Download } from "../operations/download.ts";
import { downloads, feeds, operations } from "../operations/registry.ts";
import { admit, refuseAs, refuseForeign, refuseWithout } from "./access.ts";
import type { AccessPolicy, Peer } from "./access.ts";
import { errorResponse, outcomeResponse } from "./answers.ts";
import { AssetServer } from "./assets.ts";
import type { Assets } from "./assets.ts";
import { bindInput, withWholeBody } from "./bind.ts";
import { logIn, loginAssets, logOut, scopesByCookie } from "./login.ts";
import { downloadResponse } from "./rest_download.ts";
import { RestStreams } from "./rest_streams.ts";
import type { StreamCounts } from "./sse.ts";

/** What a page of ours may load and do: only what this service serves. */
const SECURITY_HEADERS: Readonly<Record<string, string>> = {
  "content-security-policy": "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; " +
    "form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-opener-policy": "same-origin",
  "cross-origin-resource-policy": "same-origin",
  "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=()",
};

export interface RestOptions {
  readonly services: Services;
  readonly clock: Clock;
  /** Asked at every request, so that a reloaded configuration counts at once. */
  readonly access: () => AccessPolicy;
  /** The dashboard's files by path under `/`. */
  readonly assets: Assets;
  readonly report: Report;
  /** Streams at once, all clients together. */
  readonly maxStreams?: number;
}

export interface RestDoor {
  /** Answers one request; never rejects. */
  fetch(request: Request, peer: Peer): Promise<Response>;
  /** Ends every stream and every wait, so that the server can stop. */
  close(): Promise<void>;
  readonly streams: StreamCounts;
}

type Env = { Bindings: { peer: Peer } };

/** Opens the door over one set of services. */
export function openRest(options: RestOptions): RestDoor {
  return new Rest(options);
}

class Rest implements RestDoor {
  readonly #options: RestOptions;
  readonly #app = new Hono<Env>();
  readonly #assets: AssetServer;
  readonly #streams: RestStreams;
  readonly #closing = new AbortController();
  #docs: Promise<AssetServer> | null = null;
  #openApi: Promise<AssetServer> | null = null;
  #metrics: Promise<import("./metrics.ts").Metrics> | null = null;
  #mcp: Promise<import("./mcp_http.ts").McpHttp> | null = null;

  constructor(options: RestOptions) {
    this.#options = options;
    this.#streams = new RestStreams(options);
    this.#assets = new AssetServer(new Map([...options.assets, ...loginAssets]));
    this.#route();
  }

  get streams(): StreamCounts {
    return this.#streams.counts;
  }

  async fetch(request: Request, peer: Peer): Promise<Response> {
    const response = await this.#answer(request, peer);
    for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.headers.set(name, value);
    const { simulation } = this.#options.services.about;
    if (simulation !== null) response.headers.set("x-hyperswap-simulated", encodeURI(simulation));
    return response;
  }

  async #answer(request: Request, peer: Peer): Promise<Response> {
    const foreign = refuseForeign(request, peer, this.#options.access());
    if (foreign !== null) return errorResponse(foreign);
    try {
      const whole = await withWholeBody(request, this.#options.clock);
      return await this.#app.fetch(whole, { peer });
    } catch (error) {
      return errorResponse(this.#defect(error, new URL(request.url).pathname));
    }
  }

  async close(): Promise<void> {
    this.#closing.abort(new Failure("cancelled", "Cancelled: the service is stopping"));
    this.#streams.close();
    if (this.#metrics !== null) (await this.#metrics).close();
    if (this.#mcp !== null) await (await this.#mcp).close();
  }

  #route(): void {
    const methodsByPath = new Map<string, Set<string>>();
    const on = (method: string, path: string, respond: (context: Context<Env>) => Promise<Response> | Response) => {
      const pattern = path.replaceAll(/\{(\w+)\}/g, ":$1");
      this.#app.on(method, pattern, respond);
      const methods = methodsByPath.get(pattern) ?? new Set();
      methodsByPath.set(pattern, methods.add(method));
    };
    for (const operation of operations) on(operation.http.method, operation.http.path, (c) => this.#call(operation, c));
    for (const download of downloads) on("GET", download.http.path, (context) => this.#download(download, context));
    for (const feed of feeds) on("GET", feed.http.path, (context) => this.#follow(feed, context));
    on("GET", "/openapi.json", (context) => this.#describe(context));
    on("POST", "/api/login", (context) => this.#logIn(context));
    on("POST", "/api/logout", ({ req }) => logOut(req.raw, this.#options.services.logins));
    on("GET", "/metrics", (context) => this.#measure(context));
    for (const path of ["/docs", "/docs/*"]) on("GET", path, (context) => this.#document(context));
    for (const method of ["GET", "POST", "DELETE"]) on(method, "/mcp", (context) => this.#speakMcp(context));
    for (const [path, methods] of methodsByPath) this.#app.all(path, (context) => otherMethod(context, methods));
    this.#app.notFound((context) => this.#file(context));
    this.#app.onError((error, context) => errorResponse(this.#defect(error, context.req.path)));
  }

  async #call(operation: Operation, context: Context<Env>): Promise<Response> {
    const admission = this.#admit(operation, context);
    if (!admission.ok) return errorResponse(admission);
    const { services, report } = this.#options;
    try {
      const url = new URL(context.req.url);
      const input = await bindInput(operation, { request: context.req.raw, url, path: context.req.param() });
      const also = refuseAs(operation, { services, input, scopes: admission.scopes });
      if (also !== null) return errorResponse(also);
      // Who hangs up loses the answer, nothing more: only a read ends with its caller.
      using call = joinSignals(
        this.#closing.signal,
        ...(operation.access === "read" ? [context.req.raw.signal] : []),
      );
      const { signal } = call;
      const outcome = await operation.invoke(services, input, { signal, progress: ignoreProgress, report });
      return await outcomeResponse(outcome, context.req.raw);
    } catch (error) {
      return errorResponse(this.#defect(error, operation.name));
    }
  }

  #follow(feed: Feed, context: Context<Env>): Response {
    const admission = this.#admit(feed, context);
    if (!admission.ok) return errorResponse(admission);
    try {
      return this.#streams.open(feed, { request: context.req.raw, path: context.req.param() });
    } catch (error) {
      return errorResponse(this.#defect(error, feed.name));
    }
  }

  async #download(download: Download, context: Context<Env>): Promise<Response> {
    const admission = this.#admit(download, context);
    if (!admission.ok) return errorResponse(admission);
    const { services } = this.#options;
    try {
      return await downloadResponse(download, { services, request: context.req.raw, closing: this.#closing.signal });
    } catch (error) {
      return errorResponse(this.#defect(error, download.name));
    }
  }

  #admit(what: { readonly access: Access; readonly name: string }, context: Context<Env>) {
    const admission = this.#caller(context);
    return admission.ok ? refuseWithout(what.access, admission.scopes, what.name) ?? admission : admission;
  }

  #caller({ req, env }: Context<Env>) {
    const login = scopesByCookie(req.raw, this.#options.services.logins);
    return admit(req.raw, { peer: env.peer, policy: this.#options.access(), login });
  }

  async #logIn({ req }: Context<Env>): Promise<Response> {
    try {
      return await logIn(req.raw, { logins: this.#options.services.logins, clock: this.#options.clock });
    } catch (error) {
      return errorResponse(this.#defect(error, "login"));
    }
  }

  async #describe({ req }: Context<Env>): Promise<Response> {
    const { version } = this.#options.services.about;
    this.#openApi ??= import("./openapi.ts").then(({ openApi }) =>
      new AssetServer(new Map([["openapi.json", JSON.stringify(openApi(version))]]))
    );
    return await (await this.#openApi).respond("/openapi.json", req.raw) ?? noSuchPath(req.path);
  }

  async #measure(context: Context<Env>): Promise<Response> {
    const admission = this.#admit({ access: "read", name: "metrics" }, context);
    if (!admission.ok) return errorResponse(admission);
    this.#metrics ??= import("./metrics.ts").then(({ openMetrics }) => openMetrics(this.#options.services));
    const metrics = await this.#metrics;
    const { contentType, text } = await metrics.page(context.req.raw.headers.get("accept"));
    return new Response(text, {
      headers: { "content-type": contentType, "cache-control": "no-store", vary: "accept" },
    });
  }

  async #document(context: Context<Env>): Promise<Response> {
    this.#docs ??= import("./docs.ts").then(({ docsAssets }) => new AssetServer(docsAssets));
    const { path } = context.req;
    const isPage = path === "/docs" || path === "/docs/";
    return await (await this.#docs).respond(isPage ? "/docs/index.html" : path, context.req.raw) ?? noSuchPath(path);
  }

  async #speakMcp(context: Context<Env>): Promise<Response> {
    const admission = this.#caller(context);
    if (!admission.ok) return errorResponse(admission);
    const { services, clock, report } = this.#options;
    this.#mcp ??= import("./mcp_http.ts").then(({ openMcpHttp }) => openMcpHttp({ services, clock, report }));
    return await (await this.#mcp).fetch(context.req.raw, admission);
  }

  async #file(context: Context<Env>): Promise<Response> {
    const { method } = context.req.raw;
    const isFile = method === "GET" || method === "HEAD";
    const found = isFile ? await this.#assets.respond(decodePath(context.req.path), context.req.raw) : null;
    return found ?? noSuchPath(context.req.path);
  }

  #defect(error: unknown, operation: string): Refused {
    return refusedBy(asFailure(error, { operation, signal: this.#closing.signal, report: this.#options.report }));
  }
}

function otherMethod(context: Context<Env>, methods: ReadonlySet<string>): Response {
  const allow = [...methods, ...(methods.has("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ");
  const { method } = context.req.raw;
  if (method === "OPTIONS") return new Response(null, { status: 204, headers: { allow } });
  const response = errorResponse(
    refused("method_not_allowed", `Cannot ${method} ${context.req.path}`, { hint: `It takes ${allow}` }),
  );
  response.headers.set("allow", allow);
  return response;
}

function noSuchPath(path: string): Response {
  const paths = [...operations, ...feeds, ...downloads].map(({ http }) => http.path);
  const near = suggestion(path, [...paths, "/metrics", "/openapi.json", "/docs", "/mcp"]);
  return errorResponse(
    refused("not_found", `Cannot find ${path}${near}`, { hint: "GET /openapi.json lists everything" }),
  );
}

function decodePath(path: string): string {
  try {
    return decodeURIComponent(path);
  } catch (error) {
    if (error instanceof URIError) return path;
    throw error;
  }
}
