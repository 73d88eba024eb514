/** OpenAPI 3.1 of everything REST offers, made from the registry. */
import * as z from "zod";
import { FAILURES } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { Feed, Operation } from "../operations/operation.ts";
import type { Parameter } from "../operations/parameters.ts";
import { feeds, operations } from "../operations/registry.ts";
import { ErrorWire } from "../operations/run_view.ts";
import { FrameWire } from "../operations/stream.ts";
import { dropSafeLimits, inputProperties, inputSchema } from "./json_schema.ts";
import type { Json } from "./json_schema.ts";

/** Refusals that any call may meet. */
const ANY_CALL: readonly FailureCode[] = ["invalid_input", "unauthorized", "forbidden", "internal"];

/** The document; `version` is the service's. */
export function openApi(version: string): Json {
  const components = componentSchemas();
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) add(paths, operation.http, describeOperation(operation));
  for (const feed of feeds) add(paths, feed.http, describeFeed(feed));
  return {
    openapi: "3.1.0",
    info: {
      title: "HyperSwap",
      version,
      description:
        "Arbitrates one GPU between Ollama and ComfyUI. Every `*_gb` of VRAM or RAM is GiB; file sizes are " +
        "GB (10⁹ bytes), as each field says. Unknown is null. Errors are `{error: {code, message, hint?, details?}}`.",
      license: { name: "MIT", identifier: "MIT" },
    },
    servers: [{ url: "/" }],
    security: [{}, { bearer: [] }],
    tags: [
      { name: "read", description: "Loopback may call these" },
      { name: "operate", description: "Moves VRAM; loopback may call these" },
      { name: "tune", description: "Sets the card; needs the unix socket or a token" },
      { name: "admin", description: "Needs the unix socket or a token" },
    ],
    paths,
    components: {
      schemas: components,
      securitySchemes: { bearer: { type: "http", scheme: "bearer", description: "A token of access.tokens" } },
    },
  };
}

function add(paths: Record<string, Record<string, Json>>, route: { method: string; path: string }, what: Json): void {
  (paths[route.path] ??= {})[route.method.toLowerCase()] = what;
}

/** `switch-model` → `SwitchModel`: what a component of an operation is called. */
function componentName(name: string): string {
  return name.split("-").map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("");
}

/**
 * Schemas through a registry of their own: only there does zod write references where OpenAPI looks for them. A run is
 * the answer of several operations, so it is registered once.
 */
function componentSchemas(): Json {
  const registry = z.registry<{ id: string }>();
  registry.add(z.object({ error: ErrorWire }), { id: "Error" });
  registry.add(FrameWire, { id: "Frame" });
  for (const operation of operations) {
    if (!registry.has(operation.output)) registry.add(operation.output, { id: componentName(operation.name) });
  }
  const uri = (id: string) => `#/components/schemas/${id}`;
  const outputs = z.toJSONSchema(registry, { uri, io: "output", override: dropSafeLimits }).schemas;
  return Object.fromEntries(
    Object.entries(outputs).map(([id, schema]) => {
      const { $schema: _dialect, $id: _id, ...rest } = schema;
      return [id, rest];
    }),
  );
}

/** Operations that share an output share its component, named by the first: `Run` is what `run` answers. */
function refTo(schema: z.ZodType, operation: Operation): Json {
  const owner = operations.find(({ output }) => output === schema) ?? operation;
  return { $ref: `#/components/schemas/${componentName(owner.name)}` };
}

function describeOperation(operation: Operation): Json {
  const inPath = new Set([...operation.http.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name));
  const inQuery = (name: string) => operation.http.method !== "POST" || operation.http.query?.includes(name) === true;
  const parameters = operation.parameters.flatMap((parameter) => {
    if (inPath.has(parameter.name)) return [describeParameter(parameter, operation, "path")];
    return inQuery(parameter.name) ? [describeParameter(parameter, operation, "query")] : [];
  });
  const inBody = operation.parameters.filter(({ name }) => !inPath.has(name));
  const takesBody = operation.http.method === "POST" && inBody.length > 0;
  return {
    operationId: operation.name,
    summary: operation.summary,
    tags: [operation.access],
    parameters,
    ...(takesBody ? { requestBody: describeBody(operation, inBody) } : {}),
    responses: {
      200: { description: "The answer", content: json(refTo(operation.output, operation)) },
      ...(operation.isLong
        ? {
          202: {
            description: "With wait = false: the run that does it",
            content: json({ $ref: "#/components/schemas/Run" }),
          },
        }
        : {}),
      ...describeErrors([...operation.fails, ...ANY_CALL]),
    },
  };
}

function describeParameter(parameter: Parameter, operation: Operation, place: "path" | "query"): Json {
  return {
    name: parameter.name,
    in: place,
    required: place === "path" || (parameter.required && place === "query"),
    ...(parameter.description === "" ? {} : { description: parameter.description }),
    schema: inputProperties(operation)[parameter.name] ?? {},
  };
}

function describeBody(operation: Operation, parameters: readonly Parameter[]): Json {
  return {
    required: parameters.some((parameter) => parameter.required),
    content: json(inputSchema(operation, parameters)),
  };
}

function describeFeed(feed: Feed): Json {
  const isStats = feed.name === "stream";
  const how = isStats
    ? "`event: snapshot` carries the whole of `/api/stats`, `event: patch` what changed since: `t` is the new " +
      "`/timestamp`; `prepend` puts items in front of a list, which is cut to 50; then each JSON pointer of `set` gets " +
      "its value. A client that read too slowly gets a new snapshot. Comments keep the connection alive."
    : "`event: run` carries the run; the stream ends when the run has.";
  const inPath = [...feed.http.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: inputProperties(feed)[name ?? ""] ?? {},
  }));
  const item = isStats ? "Frame" : "Run";
  return {
    operationId: feed.name,
    summary: feed.summary,
    description: how,
    tags: [feed.access],
    parameters: inPath,
    responses: {
      200: {
        description: "Server-sent events; each `data` is JSON",
        content: { "text/event-stream": { schema: { $ref: `#/components/schemas/${item}` } } },
      },
      ...describeErrors(["not_found", "too_many", ...ANY_CALL]),
    },
  };
}

/** Error answers by status; several codes may share one. */
function describeErrors(codes: readonly FailureCode[]): Json {
  const byStatus = new Map<number, string[]>();
  for (const code of new Set(codes)) {
    byStatus.set(FAILURES[code].http, [...byStatus.get(FAILURES[code].http) ?? [], code]);
  }
  return Object.fromEntries(
    [...byStatus].map(([status, names]) => [
      status,
      { description: names.join(", "), content: json({ $ref: "#/components/schemas/Error" }) },
    ]),
  );
}

function json(schema: Json): Json {
  return { "application/json": { schema } };
}
