/** Reads that a host may attach to a conversation by address, and tells that one of them has changed. */
import { ProtocolError, ProtocolErrorCode, ResourceNotFoundError } from "@modelcontextprotocol/server";
import type { Server } from "@modelcontextprotocol/server";
import { FAILURES } from "../model/failure.ts";
import { ignoreProgress } from "../operations/operation.ts";
import { errorBody } from "../operations/outcome.ts";
import { suggestion } from "../operations/parameters.ts";
import { operationNamed } from "../operations/registry.ts";
import type { Invoker } from "./invoker.ts";
import type { ResourceWatch } from "./mcp_live.ts";

export interface McpResource {
  readonly uri: string;
  /** The operation whose answer it is. */
  readonly operation: string;
  readonly name: string;
  readonly description: string;
  /** Places of `/api/stats` whose change means that it has changed; "" is any. */
  readonly changesWith: readonly string[];
}

export const RESOURCES: readonly McpResource[] = [
  {
    uri: "gpu://metrics/live",
    operation: "stats",
    name: "Live metrics",
    description: "The whole box in this second",
    changesWith: [""],
  },
  {
    uri: "gpu://models/catalog",
    operation: "models",
    name: "Models",
    description: "Installed Ollama models and ComfyUI files",
    changesWith: ["/ollama/installed_models", "/ram/model_files_total_gb"],
  },
  {
    uri: "gpu://cache/residency",
    operation: "cache-report",
    name: "Page cache",
    description: "How much of each model file is in memory",
    changesWith: ["/ram/model_files_gb", "/ram/model_files_total_gb"],
  },
  {
    uri: "gpu://history/switches",
    operation: "history",
    name: "History",
    description: "The newest swaps, yields and purges",
    changesWith: ["/history"],
  },
  {
    uri: "gpu://analytics/profiles",
    operation: "analytics-profiles",
    name: "Profile performance",
    description: "Speed and heat under each profile, with samples and spread",
    changesWith: ["/history"],
  },
  {
    uri: "gpu://overclock/profiles",
    operation: "overclock",
    name: "Profiles",
    description: "The card's profiles with their evidence, and what became of each lever",
    changesWith: ["/tuning"],
  },
];

/** Subscriptions of one session. */
const MAX_SUBSCRIPTIONS = 64;

const URIS = RESOURCES.map(({ uri }) => uri);

/** Gives a server its resources. Those of 2025 that were subscribed to are told about changes by `watch`. */
export function serveResources(
  server: Server,
  from: { readonly invoker: Invoker; readonly watch: ResourceWatch },
): void {
  const { invoker, watch } = from;
  server.setRequestHandler("resources/list", () => ({
    resources: RESOURCES.map(({ uri, name, description }) => ({
      uri,
      name,
      description,
      mimeType: "application/json",
    })),
  }));
  server.setRequestHandler("resources/templates/list", () => ({ resourceTemplates: [] }));
  server.setRequestHandler("resources/read", async ({ params }, { mcpReq }) => {
    const { uri, operation } = resourceAt(params.uri);
    const call = { signal: mcpReq.signal, progress: ignoreProgress };
    const outcome = await invoker.invoke(operationNamed(operation), {}, call);
    if (!outcome.ok) throw new ProtocolError(FAILURES[outcome.code].rpc, outcome.message, errorBody(outcome).error);
    return { contents: [{ uri, mimeType: "application/json", text: JSON.stringify(outcome.value) }] };
  });
  const stops = new Map<string, () => void>();
  server.setRequestHandler("resources/subscribe", ({ params }) => {
    // Also one that isn't there: it may come, and until then it doesn't change.
    const { uri } = params;
    if (stops.size >= MAX_SUBSCRIPTIONS) {
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `Cannot keep more than ${MAX_SUBSCRIPTIONS} subscriptions`,
      );
    }
    if (!stops.has(uri)) stops.set(uri, watch.subscribe((event) => tell(server, event, uri)));
    return {};
  });
  server.setRequestHandler("resources/unsubscribe", ({ params }) => {
    stops.get(params.uri)?.();
    stops.delete(params.uri);
    return {};
  });
  const { onclose } = server;
  server.onclose = () => {
    for (const stop of stops.values()) stop();
    stops.clear();
    onclose?.();
  };
}

/** Sends every change to a server whose transport keeps the subscriptions itself (2026, over standard streams). */
export function pushEverything(server: Server, watch: ResourceWatch): void {
  const stop = watch.subscribe((event) => tell(server, event, null));
  const { onclose } = server;
  server.onclose = () => {
    stop();
    onclose?.();
  };
}

function tell(server: Server, event: { readonly kind: string; readonly uri?: string }, only: string | null): void {
  const { uri } = event;
  if (event.kind !== "resource_updated" || uri === undefined || (only !== null && only !== uri)) return;
  // Whoever has gone by now misses nothing: its subscription ends with its connection.
  server.sendResourceUpdated({ uri }).catch(() => undefined);
}

function resourceAt(uri: string): McpResource {
  const found = RESOURCES.find((resource) => resource.uri === uri);
  if (found !== undefined) return found;
  throw new ResourceNotFoundError(uri, `Cannot find the resource ${uri}${suggestion(uri, URIS)}`);
}
