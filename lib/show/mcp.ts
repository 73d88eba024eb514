/** MCP: the registry as tools, three reads as resources. Validation and errors are the operations' own. */
import { ProtocolError, ProtocolErrorCode, Server } from "@modelcontextprotocol/server";
import type { CallToolResult, ServerContext, Tool } from "@modelcontextprotocol/server";
import { FAILURES } from "../model/failure.ts";
import type { Progress } from "../model/services.ts";
import { ignoreProgress } from "../operations/operation.ts";
import type { Operation, ToolDoor } from "../operations/operation.ts";
import { errorBody } from "../operations/outcome.ts";
import { suggestion } from "../operations/parameters.ts";
import { operationNamed, operations } from "../operations/registry.ts";
import type { ServiceAbout } from "./about.ts";
import type { Invoker } from "./invoker.ts";
import { inputSchema, outputSchema } from "./json_schema.ts";

/** Reads that hosts may attach to a conversation by address. */
const RESOURCES = [
  { uri: "gpu://metrics/live", operation: "stats", name: "Live metrics", description: "The whole box in this second" },
  {
    uri: "gpu://models/catalog",
    operation: "models",
    name: "Models",
    description: "Installed Ollama models and ComfyUI files",
  },
  {
    uri: "gpu://cache/residency",
    operation: "cache-report",
    name: "Page cache",
    description: "How much of each model file is in memory",
  },
  {
    uri: "gpu://history/switches",
    operation: "history",
    name: "History",
    description: "The newest swaps, yields and purges",
  },
  {
    uri: "gpu://overclock/profiles",
    operation: "overclock",
    name: "Profiles",
    description: "The card's profiles with their evidence, and what became of each lever",
  },
] as const;

const INSTRUCTIONS =
  "HyperSwap arbitrates one GPU between Ollama and ComfyUI. VRAM and RAM are in GiB, file sizes in " +
  "GB (10^9 bytes). A yield or purge has given memory back only when its outcome is `released`. Unknown is null. " +
  "Errors are {error: {code, message, hint}}: the hint says what helps.";

/** A server over one invoker; one per connection. */
export function buildMcp(invoker: Invoker, about: ServiceAbout): Server {
  const server = new Server({ name: "hyperswap", title: "HyperSwap", version: about.version }, {
    capabilities: { tools: {}, resources: {} },
    instructions: about.simulation === null ? INSTRUCTIONS : `${simulatedLine(about.simulation)} ${INSTRUCTIONS}`,
  });
  const tools = new Map(operations.flatMap((operation) => {
    return operation.tool === false ? [] : [[operation.tool.name, { operation, tool: operation.tool }] as const];
  }));
  server.setRequestHandler("tools/list", () => ({
    tools: [...tools.values()].map(({ operation, tool }) => describeTool(operation, tool)),
  }));
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    const found = tools.get(params.name);
    if (found === undefined) {
      const near = suggestion(params.name, [...tools.keys()]);
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Cannot find a tool named "${params.name}"${near}`);
    }
    return await callTool(found.operation, params.arguments ?? {}, { invoker, about, context });
  });
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
    const resource = RESOURCES.find(({ uri }) => uri === params.uri);
    if (resource === undefined) {
      const near = suggestion(params.uri, RESOURCES.map(({ uri }) => uri));
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Cannot find the resource ${params.uri}${near}`);
    }
    const outcome = await invoker.invoke(operationNamed(resource.operation), {}, {
      signal: mcpReq.signal,
      progress: ignoreProgress,
    });
    if (!outcome.ok) throw new ProtocolError(FAILURES[outcome.code].rpc, outcome.message, errorBody(outcome).error);
    return { contents: [{ uri: params.uri, mimeType: "application/json", text: JSON.stringify(outcome.value) }] };
  });
  return server;
}

function describeTool(operation: Operation, tool: ToolDoor): Tool {
  const isRead = operation.access === "read";
  return {
    name: tool.name,
    title: operation.summary,
    description: [operation.summary, ...(tool.guidance === undefined ? [] : [tool.guidance])].join(". "),
    // The SDK wants `type: "object"` spelled in the type; every schema of the registry is an object's.
    inputSchema: inputSchema(operation) as Tool["inputSchema"],
    outputSchema: outputSchema(operation) as NonNullable<Tool["outputSchema"]>,
    annotations: {
      readOnlyHint: isRead,
      destructiveHint: tool.destructive === true,
      idempotentHint: tool.idempotent === true,
      openWorldHint: false,
    },
  };
}

async function callTool(
  operation: Operation,
  input: Readonly<Record<string, unknown>>,
  call: { readonly invoker: Invoker; readonly about: ServiceAbout; readonly context: ServerContext },
): Promise<CallToolResult> {
  const { mcpReq } = call.context;
  const outcome = await call.invoker.invoke(operation, input, {
    signal: mcpReq.signal,
    progress: progressNotifier(call.context),
  });
  const body = outcome.ok ? outcome.value : errorBody(outcome);
  const content: CallToolResult["content"] = [{ type: "text", text: JSON.stringify(body) }];
  if (call.about.simulation !== null) content.push({ type: "text", text: simulatedLine(call.about.simulation) });
  // An error's body doesn't fit the output schema, so only answers are structured.
  return outcome.ok ? { content, structuredContent: { ...outcome.value } } : { content, isError: true };
}

/** Reports progress where the caller asked for it; its figure only ever goes up, as the protocol wants. */
function progressNotifier({ mcpReq }: ServerContext): (progress: Progress) => void {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return ignoreProgress;
  let last = 0;
  return ({ phase, done }) => {
    last = Math.max(last + 0.01, (done ?? 0) * 100);
    const params = { progressToken, progress: last, message: phase, ...(done === null ? {} : { total: 100 }) };
    // A caller that has gone or cancelled gets no progress, and that is all: the call itself ends by its signal.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => undefined);
  };
}

function simulatedLine(simulation: string): string {
  return `SIMULATED: nothing here is real hardware (${simulation}).`;
}
