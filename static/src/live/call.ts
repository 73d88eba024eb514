/** The client of the operations: method and path come from the service's own route table. */
import type { Operations } from "../../../lib/operations/registry.ts";
import { type Route, type RouteName, ROUTES } from "../../../lib/operations/routes.ts";

/** The service said no, or didn't answer; with what helps, when it said so. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  constructor(readonly code: string, message: string, readonly hint: string | null) {
    super(message);
  }
}

export type Answer<Name extends RouteName> = Operations[Name]["output"];

/** Calls an operation and returns its answer, or throws a Refusal. */
export async function call<Name extends RouteName>(
  name: Name,
  input: Operations[Name]["input"],
  signal?: AbortSignal,
): Promise<Answer<Name>> {
  // The service checks every answer by the schema that this type comes from, before it sends it.
  return await request(ROUTES[name], input, signal) as Answer<Name>;
}

/** Starts long work and returns its run at once. */
export async function start<Name extends "autotune-sweep" | "benchmark" | "switch-model" | "warm-all" | "warm-model">(
  name: Name,
  input: Operations[Name]["input"],
): Promise<Answer<"run">> {
  // With wait=false the answer is the run, whatever the operation.
  return await request(ROUTES[name], { ...input, wait: false }) as Answer<"run">;
}

async function request(route: Route, input: object, signal?: AbortSignal): Promise<unknown> {
  const { url, init } = requestOf(route, input);
  let response: Response;
  try {
    response = await fetch(url, signal ? { ...init, signal } : init);
  } catch (cause) {
    if (signal?.aborted) throw cause;
    throw new Refusal("unreachable", "The service did not answer", "Check that hyperswap serve is still running");
  }
  const body = await bodyOf(response);
  if (response.ok) return body;
  throw refusalOf(response, body);
}

/** Why the live stream is silent, in the service's own words; null when it answers as if nothing were wrong. */
export async function reasonOfSilence(): Promise<string | null> {
  try {
    await call("version", {}, AbortSignal.timeout(4_000));
    return null;
  } catch (error) {
    if (!(error instanceof Refusal)) return "The service did not answer within 4 s";
    return error.hint === null ? error.message : `${error.message}. ${error.hint}`;
  }
}

function requestOf(route: Route, input: object): { readonly url: string; readonly init: RequestInit } {
  const rest: Record<string, unknown> = { ...input };
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, key: string) => {
    const value = String(rest[key] ?? "");
    delete rest[key];
    return encodeURIComponent(value);
  });
  if (route.method === "POST") {
    return {
      url: path,
      init: { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(rest) },
    };
  }
  const query = new URLSearchParams(Object.entries(rest).map(([key, value]) => [key, String(value)]));
  return { url: query.size > 0 ? `${path}?${query}` : path, init: { method: route.method } };
}

async function bodyOf(response: Response): Promise<unknown> {
  const text = await response.text();
  try {
    return text === "" ? null : JSON.parse(text);
  } catch {
    // Not JSON: something between us and the service answered. Its text is the best explanation there is.
    return text;
  }
}

function refusalOf(response: Response, body: unknown): Refusal {
  const error = isObject(body) && isObject(body["error"]) ? body["error"] : null;
  if (error === null) {
    return new Refusal(String(response.status), `The service answered ${response.status} ${response.statusText}`, null);
  }
  const hint = error["hint"];
  return new Refusal(String(error["code"]), String(error["message"]), typeof hint === "string" ? hint : null);
}

/** A JSON object, and not a list or null. */
function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
