/**
 * Operations in a running service, over its unix socket or its port. Long work is started, followed by its events and
 * cancelled on request; a lost connection never ends it.
 */
import { FAILURES, messageOf } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { CallOptions } from "../model/services.ts";
import { ignoreProgress } from "../operations/operation.ts";
import type { Download, DownloadText } from "../operations/download.ts";
import type { Feed, Operation } from "../operations/operation.ts";
import { answered, outcomeOfRun, refused } from "../operations/outcome.ts";
import type { Outcome, Refused } from "../operations/outcome.ts";
import { readInput, readParameters } from "../operations/parameters.ts";
import { operationNamed } from "../operations/registry.ts";
import { RunWire } from "../operations/run_view.ts";
import type { RunWireView } from "../operations/run_view.ts";
import { runEvents } from "../operations/runs.ts";
import { readEvents } from "./event_reader.ts";
import type { FollowOptions, Invoker } from "./invoker.ts";

export interface ServiceAddress {
  /** Unix sockets that may be the service's, tried first and in this order. */
  readonly socketPaths: readonly string[];
  /** Such as `http://127.0.0.1:9090`, tried next; null where it isn't wanted. */
  readonly url: string | null;
  readonly token: string | null;
}

/** How long a service may take to say who it is. */
const HELLO_MS = 2_000;

/** How often a broken event stream is taken up again before giving up on watching (the run goes on). */
const FOLLOW_TRIES = 3;

const NEVER = new AbortController().signal;

export interface Search {
  readonly invoker: Invoker | null;
  /** What was tried and why it wasn't it, in words. */
  readonly tried: readonly string[];
}

/** Looks for a running service: the socket, then the port. Something else on the port is not taken for it. */
export async function findService(address: ServiceAddress, clock: Pick<Clock, "deadline">): Promise<Search> {
  const { socketPaths, url, token } = address;
  const candidates = [
    ...socketPaths.map((path) => () => unixInvoker(path, token)),
    ...(url === null ? [] : [() => new HttpInvoker({ where: url, base: url, client: null, token })]),
  ];
  const tried: string[] = [];
  for (const open of candidates) {
    const invoker = open();
    const hello = await sayHello(invoker, clock);
    if (hello.ok && hello.value["service"] === "hyperswap") return { invoker, tried };
    // A service that wants a token is the service all the same: the call itself will say so.
    if (!hello.ok && (hello.code === "unauthorized" || hello.code === "forbidden")) return { invoker, tried };
    tried.push(hello.ok ? `${invoker.where} is not HyperSwap` : hello.message);
    invoker.close();
  }
  return { invoker: null, tried };
}

async function sayHello(invoker: Invoker, clock: Pick<Clock, "deadline">): Promise<Outcome> {
  // Aborted when the answer is there: that takes the deadline's timer back.
  const done = new AbortController();
  try {
    const signal = clock.deadline(HELLO_MS, done.signal);
    return await invoker.invoke(operationNamed("version"), {}, { signal, progress: ignoreProgress });
  } finally {
    done.abort();
  }
}

function unixInvoker(path: string, token: string | null): HttpInvoker {
  const client = Deno.createHttpClient({ proxy: { transport: "unix", path } });
  return new HttpInvoker({ where: `unix:${path}`, base: "http://localhost", client, token });
}

interface HttpInvokerOptions {
  readonly where: string;
  readonly base: string;
  readonly client: Deno.HttpClient | null;
  readonly token: string | null;
}

/** One service's operations. */
export class HttpInvoker implements Invoker {
  readonly #options: HttpInvokerOptions;

  constructor(options: HttpInvokerOptions) {
    this.#options = options;
  }

  get where(): string {
    return this.#options.where;
  }

  async invoke(operation: Operation, input: Readonly<Record<string, unknown>>, call: CallOptions): Promise<Outcome> {
    // The same refusal that the service would give, without asking it; it checks again all the same.
    const checked = readInput(input, operation);
    if (!checked.ok) return checked;
    if (!operation.isLong || checked.data["wait"] === false) return await this.#ask(operation, input, call.signal);
    if (call.signal.aborted) return cancelled(operation.name);
    // Not under the caller's signal: a start that went through unseen could not be cancelled.
    const started = await this.#ask(operation, { ...input, wait: false }, NEVER);
    return started.ok && started.accepted ? await this.#watch(RunWire.parse(started.value), call) : started;
  }

  async follow(feed: Feed, input: Readonly<Record<string, unknown>>, options: FollowOptions): Promise<Refused | null> {
    const { signal, onItem } = options;
    const checked = readInput(input, { input: feed.input, aliases: {}, parameters: readParameters(feed.input, {}) });
    if (!checked.ok) return checked;
    try {
      const response = await this.#fetch(requestFor(feed.http, { ...input }), signal);
      if (!response.ok || response.body === null) return await refusalOf(response, this.where);
      for await (const { event, data } of readEvents(response.body)) {
        const item: unknown = JSON.parse(data);
        onItem(feed.isShared ? { event, data: item } : item);
      }
      return null;
    } catch (error) {
      return signal.aborted ? null : this.#unreachable(error);
    }
  }

  async download(
    download: Download,
    input: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Refused | Pick<DownloadText, "chunks">> {
    const checked = readInput(input, { input: download.input, aliases: {}, parameters: download.parameters });
    if (!checked.ok) return checked;
    try {
      const response = await this.#fetch(requestFor(download.http, { ...input }), signal);
      if (!response.ok || response.body === null) return await refusalOf(response, this.where);
      return { chunks: response.body.pipeThrough(new TextDecoderStream()) };
    } catch (error) {
      return this.#unreachable(error);
    }
  }

  close(): void {
    this.#options.client?.close();
  }

  async #watch(started: RunWireView, call: CallOptions): Promise<Outcome> {
    let run = started;
    const cancel = () => void this.#ask(operationNamed("cancel-run"), { id: run.id }, NEVER);
    if (call.signal.aborted) cancel();
    else call.signal.addEventListener("abort", cancel, { once: true });
    const onItem = (item: unknown) => {
      run = RunWire.parse(item);
      if (run.phase !== null) {
        call.progress({ phase: run.phase, done: run.done_pct === null ? null : run.done_pct / 100, etaMs: run.eta_ms });
      }
    };
    try {
      let lost: Refused | null = null;
      for (let tries = 0; run.state === "running" && tries < FOLLOW_TRIES; tries++) {
        lost = await this.follow(runEvents, { id: run.id }, { signal: NEVER, onItem });
      }
      if (run.state !== "running") return outcomeOfRun(run);
      return refused("unavailable", `Lost sight of ${run.operation}: ${lost?.message ?? "its events ended early"}`, {
        hint: `It goes on without us: hyperswap runs get ${run.id}`,
        details: { run: run.id },
      });
    } finally {
      call.signal.removeEventListener("abort", cancel);
    }
  }

  async #ask(operation: Operation, input: Readonly<Record<string, unknown>>, signal: AbortSignal): Promise<Outcome> {
    try {
      const response = await this.#fetch(requestFor(operation.http, { ...input }), signal);
      if (!response.ok) return await refusalOf(response, this.where);
      const value: unknown = await response.json();
      if (typeof value !== "object" || value === null) return strange(this.where, "its answer is no JSON object");
      // Narrowed to a JSON object, whose keys are strings.
      return answered(value as Readonly<Record<string, unknown>>, response.status === 202);
    } catch (error) {
      if (!signal.aborted || isTimeout(signal.reason)) return this.#unreachable(error);
      // Only a run can be cancelled from here; the service goes on with anything else that it was asked to do.
      return operation.access === "read" ? cancelled(operation.name) : refused(
        "cancelled",
        `Stopped waiting for ${operation.name}: the service goes on with it`,
        { hint: "hyperswap arbitration shows how it stands" },
      );
    }
  }

  async #fetch(request: { path: string; init: RequestInit }, signal: AbortSignal): Promise<Response> {
    const { base, client, token } = this.#options;
    const headers = new Headers(request.init.headers);
    if (token !== null) headers.set("authorization", `Bearer ${token}`);
    // `manual`: a token must not travel on to where a redirect points.
    return await fetch(base + request.path, {
      ...request.init,
      headers,
      signal,
      redirect: "manual",
      ...(client === null ? {} : { client }),
    });
  }

  #unreachable(error: unknown): Refused {
    return refused("unavailable", `Cannot reach HyperSwap at ${this.where}: ${messageOf(error)}`, {
      hint: "Start it with systemctl start hyperswap, or hyperswap serve; --host, --port and --socket say where it is",
    });
  }
}

/** Path, query and body of a call: parameters of the path stand there, a GET's in the query, the rest in the body. */
function requestFor(
  route: { readonly method: string; readonly path: string },
  input: Record<string, unknown>,
): { path: string; init: RequestInit } {
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = input[name];
    delete input[name];
    return encodeURIComponent(String(value));
  });
  if (route.method === "POST") {
    const init = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(input) };
    return { path, init };
  }
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(input)) {
    if (value === null || value === undefined) continue;
    for (const item of Array.isArray(value) ? value : [value]) query.append(name, String(item));
  }
  return { path: query.size > 0 ? `${path}?${query}` : path, init: { method: route.method } };
}

async function refusalOf(response: Response, where: string): Promise<Refused> {
  const text = await response.text();
  try {
    const { error } = JSON.parse(text);
    if (typeof error?.code === "string" && Object.hasOwn(FAILURES, error.code)) {
      // Checked in the line above.
      const code = error.code as FailureCode;
      return refused(code, String(error.message), { hint: error.hint ?? null, details: error.details ?? null });
    }
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
  }
  return strange(where, `it answered ${response.status}`);
}

function strange(where: string, why: string): Refused {
  return refused("unavailable", `Cannot take ${where} for HyperSwap: ${why}`, {
    hint: "Another program seems to listen there: --port says where HyperSwap is",
  });
}

function cancelled(operation: string): Refused {
  return refused("cancelled", `Cancelled ${operation} before it ended`);
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof DOMException && reason.name === "TimeoutError";
}
