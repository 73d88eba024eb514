/** MCP: the registry as tools, with resources and prompts beside them. Validation and errors are the operations' own. */
import { ProtocolError, ProtocolErrorCode, SdkError, Server } from "@modelcontextprotocol/server";
import type { CallToolResult, ServerContext, Tool } from "@modelcontextprotocol/server";
import { type JoinedSignal, joinSignals } from "../model/join_signals.ts";
import type { Progress } from "../model/services.ts";
import { round } from "../model/units.ts";
import { ignoreProgress } from "../operations/operation.ts";
import type { Operation, ToolDoor } from "../operations/operation.ts";
import { errorBody } from "../operations/outcome.ts";
import { suggestion } from "../operations/parameters.ts";
import { operations } from "../operations/registry.ts";
import type { ServiceAbout } from "./about.ts";
import type { Invoker } from "./invoker.ts";
import { inputSchema, outputSchema } from "./json_schema.ts";
import type { ResourceWatch } from "./mcp_live.ts";
import { serveCompletions, servePrompts } from "./mcp_prompts.ts";
import { serveResources } from "./mcp_resources.ts";

const INSTRUCTIONS =
  "HyperSwap arbitrates one GPU between Ollama and ComfyUI. VRAM and RAM are in GiB, file sizes in " +
  "GB (10^9 bytes). A yield or purge has given memory back only when its outcome is `released`. Unknown is null. " +
  "Errors are {error: {code, message, hint}}: the hint says what helps.";

export interface McpParts {
  readonly invoker: Invoker;
  readonly about: ServiceAbout;
  /** Tells which resources have changed. */
  readonly watch: ResourceWatch;
  /** Ends what is under way, also what outlives its caller. */
  readonly closing: AbortSignal;
}

/** A server over one invoker; one per connection. */
export function buildMcp(parts: McpParts): Server {
  const { invoker, about, watch } = parts;
  const server = new Server({ name: "hyperswap", title: "HyperSwap", version: about.version }, {
    capabilities: { tools: {}, resources: { subscribe: true }, prompts: {}, completions: {}, logging: {} },
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
    return await callTool(found.operation, params.arguments ?? {}, { ...parts, context });
  });
  serveResources(server, { invoker, watch });
  servePrompts(server, invoker);
  serveCompletions(server, invoker);
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
  call: McpParts & { readonly context: ServerContext },
): Promise<CallToolResult> {
  const { signal } = call.context.mcpReq;
  using cancelled = cancelledOnly(signal, call.closing);
  const outcome = await call.invoker.invoke(operation, input, {
    // Who reads and leaves needs no answer; whatever else was started goes on until it is cancelled in so many words.
    signal: operation.access === "read" ? signal : cancelled.signal,
    progress: progressNotifier(call.context),
  });
  const body = outcome.ok ? outcome.value : errorBody(outcome);
  const content: CallToolResult["content"] = [{ type: "text", text: JSON.stringify(body) }];
  if (call.about.simulation !== null) content.push({ type: "text", text: simulatedLine(call.about.simulation) });
  // An error's body doesn't fit the output schema, so only answers are structured.
  return outcome.ok ? { content, structuredContent: { ...outcome.value } } : { content, isError: true };
}

/** Aborts when the call is cancelled or the service ends, and not when the caller's line is lost. */
function cancelledOnly(call: AbortSignal, closing: AbortSignal): JoinedSignal {
  const cancel = new AbortController();
  const onAbort = () => {
    // The SDK gives a lost connection as an error of its own, a cancel as the reason that came with it.
    if (!(call.reason instanceof SdkError)) cancel.abort(call.reason);
  };
  call.addEventListener("abort", onAbort);
  if (call.aborted) onAbort();
  return joinSignals(cancel.signal, closing);
}

/** Reports progress where the caller asked for it; its figure only ever goes up, as the protocol wants. */
function progressNotifier({ mcpReq }: ServerContext): (progress: Progress) => void {
  const progressToken = mcpReq._meta?.progressToken;
  if (progressToken === undefined) return ignoreProgress;
  let last = 0;
  return ({ phase, done }) => {
    // Sums of hundredths leave a tail of digits behind.
    last = round(Math.max(last + 0.01, (done ?? 0) * 100), 2) ?? last;
    const params = { progressToken, progress: last, message: phase, ...(done === null ? {} : { total: 100 }) };
    // A caller that has gone or cancelled gets no progress, and that is all: the call itself ends by its signal.
    mcpReq.notify({ method: "notifications/progress", params }).catch(() => undefined);
  };
}

function simulatedLine(simulation: string): string {
  return `SIMULATED: nothing here is real hardware (${simulation}).`;
}
