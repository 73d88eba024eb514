/** OpenAPI 3.1 of everything REST offers, made from the registry. */
import * as z from "zod";
import { FAILURES } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { Download } from "../operations/download.ts";
import type { Feed, Operation } from "../operations/operation.ts";
import type { Parameter } from "../operations/parameters.ts";
import { downloads, feeds, operations } from "../operations/registry.ts";
import { ErrorWire } from "../operations/run_view.ts";
import { FrameWire } from "../operations/stream.ts";
import { exampleOf } from "./example.ts";
import { dropSafeLimits, inputProperties, inputSchema, outputSchema } from "./json_schema.ts";
import type { Json } from "./json_schema.ts";

/** Refusals that any call may meet. */
const ANY_CALL: readonly FailureCode[] = ["invalid_input", "unauthorized", "forbidden", "too_large", "internal"];

/** The document; `version` is the service's. */
export function openApi(version: string): Json {
  const components = componentSchemas();
  const paths: Record<string, Record<string, Json>> = {};
  for (const operation of operations) add(paths, operation.http, describeOperation(operation));
  for (const feed of feeds) add(paths, feed.http, describeFeed(feed));
  for (const download of downloads) add(paths, download.http, describeDownload(download));
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
    security: [{}, { bearer: [] }, { login: [] }],
    tags: [
      { name: "read", description: "Loopback may call these" },
      { name: "operate", description: "Moves VRAM; loopback may call these" },
      { name: "tune", description: "Sets the card; needs the unix socket or a token" },
      { name: "admin", description: "Needs the unix socket or a token" },
    ],
    paths: { ...paths, ...LOGIN_PATHS },
    components: {
      schemas: components,
      securitySchemes: {
        bearer: { type: "http", scheme: "bearer", description: "A token of access.tokens" },
        login: {
          type: "apiKey",
          in: "cookie",
          name: "hyperswap_9090",
          description: "What POST /api/login sets; the number is the service's port",
        },
      },
    },
  };
}

const SCOPES_ANSWER = {
  type: "object",
  properties: { scopes: { type: "array", items: { type: "string" } }, expires_at: { type: "string" } },
  required: ["scopes"],
};

/** Logging in and out is the door's own: it is about who asks, not about what. */
const LOGIN_PATHS: Readonly<Record<string, Json>> = {
  "/api/login": {
    post: {
      operationId: "log-in",
      summary: "Turn a link's code into a cookie; the code works once",
      description: "The code is the part behind # of the link that POST /api/login/link makes.",
      tags: ["read"],
      security: [{}],
      parameters: [],
      requestBody: {
        required: true,
        content: json({
          type: "object",
          properties: { code: { type: "string", minLength: 1 } },
          required: ["code"],
          additionalProperties: false,
        }, { code: "9f2c…" }),
      },
      responses: {
        200: {
          description: "Logged in, with the cookie",
          content: json(SCOPES_ANSWER, { scopes: ["read", "operate"] }),
        },
        ...describeErrors(ANY_CALL),
      },
    },
  },
  "/api/logout": {
    post: {
      operationId: "log-out",
      summary: "End the login that the cookie stands for",
      tags: ["read"],
      parameters: [],
      responses: {
        200: { description: "Logged out", content: json(SCOPES_ANSWER, { scopes: [] }) },
        ...describeErrors(ANY_CALL),
      },
    },
  },
};

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
      200: {
        description: "The answer",
        content: json(refTo(operation.output, operation), exampleOf(outputSchema({ ...operation, isLong: false }))),
      },
      ...(operation.http.method === "GET"
        ? { 304: { description: "As If-None-Match names it: large answers carry an ETag" } }
        : {}),
      ...(operation.isLong
        ? {
          202: {
            description: "With wait = false: the run that does it",
            content: json({ $ref: "#/components/schemas/Run" }),
          },
        }
        : {}),
      // Whoever waits for long work hears of it when somebody else calls that off.
      ...describeErrors([...operation.fails, ...operation.isLong ? ["cancelled" as const] : [], ...ANY_CALL]),
    },
  };
}

function describeParameter(
  parameter: Parameter,
  operation: Pick<Operation, "input">,
  place: "path" | "query",
): Json {
  return {
    name: parameter.name,
    in: place,
    required: place === "path" || (parameter.required && place === "query"),
    ...(parameter.description === "" ? {} : { description: parameter.description }),
    schema: inputProperties(operation)[parameter.name] ?? {},
    example: exampleOf(inputProperties(operation)[parameter.name] ?? {}, parameter.name),
  };
}

function describeBody(operation: Operation, parameters: readonly Parameter[]): Json {
  return {
    required: parameters.some((parameter) => parameter.required),
    content: json(inputSchema(operation, parameters), bodyExample(operation, parameters)),
  };
}

/** What must be said, and what is usually said; where nothing must, the first of them. */
function bodyExample(operation: Operation, parameters: readonly Parameter[]): Json {
  const required = parameters.filter((parameter) => parameter.required);
  const shown = required.length > 0 ? required : parameters.slice(0, 1);
  const properties = inputProperties(operation);
  return Object.fromEntries(shown.map(({ name }) => [name, exampleOf(properties[name] ?? {}, name)]));
}

function describeFeed(feed: Feed): Json {
  const isStats = feed.name === "stream";
  const how = isStats
    ? "`event: snapshot` carries the whole of `/api/stats`, `event: patch` what changed since: `t` is the new " +
      "`/timestamp`; `prepend` puts items in front of a list, which is cut to 50; then each JSON pointer of `set` gets " +
      "its value: that is `/api/stats` again, field for field. Each event has an `id`: a client that comes back with " +
      "it in `Last-Event-ID` gets what it missed, as far as that is kept (60 events), else a snapshot. A client that " +
      "reads too slowly misses events and then gets a snapshot; after 60 in a row it is let go. `retry` names the wait " +
      "before coming back; a comment every 15 s of silence keeps the connection alive."
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
    parameters: [
      ...inPath,
      ...(isStats ? [{ name: "Last-Event-ID", in: "header", required: false, schema: { type: "string" } }] : []),
    ],
    responses: {
      200: {
        description: "Server-sent events; each `data` is JSON",
        content: { "text/event-stream": { schema: { $ref: `#/components/schemas/${item}` } } },
      },
      ...describeErrors(["not_found", "too_many", ...ANY_CALL]),
    },
  };
}

function describeDownload(download: Download): Json {
  return {
    operationId: download.name,
    summary: download.summary,
    tags: [download.access],
    parameters: download.parameters.map((parameter) => describeParameter(parameter, download, "query")),
    responses: {
      200: {
        description: "Streamed, oldest first",
        content: {
          "application/json": { schema: { type: "array", items: { type: "object" } } },
          "text/csv": { schema: { type: "string" } },
        },
      },
      ...describeErrors(["unavailable", ...ANY_CALL]),
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
      {
        description: names.join(", "),
        content: json({ $ref: "#/components/schemas/Error" }, {
          error: { code: names[0], message: "Cannot do it: why", hint: "What helps" },
        }),
      },
    ]),
  );
}

function json(schema: Json, example?: unknown): Json {
  return { "application/json": { schema, ...(example === undefined ? {} : { example }) } };
}
