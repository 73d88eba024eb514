/** Questions that people ask of the box, each with the readings that answer it and how to read them. */
import { ProtocolError, ProtocolErrorCode } from "@modelcontextprotocol/server";
import type { GetPromptResult, Server } from "@modelcontextprotocol/server";
import { ignoreProgress } from "../operations/operation.ts";
import { suggestion } from "../operations/parameters.ts";
import { operationNamed } from "../operations/registry.ts";
import type { Invoker } from "./invoker.ts";

type Given = Readonly<Record<string, string>>;
type Json = Readonly<Record<string, unknown>>;

/** Suggestions for one argument at once, as the protocol allows. */
const MAX_VALUES = 100;

interface McpArgument {
  readonly name: string;
  readonly description: string;
  /** Where its values are found, to complete what was typed: an operation, and how its answer lists them. */
  readonly values?: { readonly operation: string; readonly list: (answer: Json) => readonly string[] };
}

interface McpPrompt {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly arguments: readonly McpArgument[];
  /** What is asked, with what is needed to answer it well. */
  readonly text: (given: Given) => string;
  /** Readings that go with it: an operation's name and input. */
  readonly reads: readonly (readonly [string, Readonly<Record<string, unknown>>])[];
}

const PROMPTS: readonly McpPrompt[] = [
  {
    name: "why_is_my_model_slow",
    title: "Why is my model slow?",
    description: "Tells a slow load from slow decoding, and each from a model that lies outside VRAM",
    arguments: [{
      name: "model",
      description: "the model in question; the one used last when left out",
      values: { operation: "models", list: (answer) => namesIn(answer, "models") },
    }],
    text: ({ model = "the model that was used last" }) =>
      `Why is ${model} slow? Look at the readings below, in this order. ` +
      "1. `spilled` of a loaded model: part of it lies outside VRAM, which costs most; say who holds the rest " +
      "(`breakdown`), and that a purge or a switch makes room. " +
      "2. Its newest swap in the history: `class` and `verdict` say whether it came from memory or from disk, " +
      "`residency_before_pct` how much of it was cached; `get_warm_plan` shows what warming would do. " +
      "3. Throttle reasons, temperature and the power limit: whether the card holds it back. " +
      "4. `tokens_per_sec` against `get_swap_statistics`: whether this is unusual for it at all. " +
      "Name the one cause the figures show, with the figures; say plainly where they don't tell. Change nothing unasked.",
    reads: [["stats", {}], ["history", { limit: 20 }]],
  },
  {
    name: "free_the_gpu",
    title: "Free the GPU",
    description: "Says who holds the card, what can be given back, and gives back what was agreed to",
    arguments: [{ name: "needed_gb", description: "GiB that are wanted; all that can be had when left out" }],
    text: ({ needed_gb: needed }) =>
      `Free ${needed === undefined ? "the GPU" : `${needed} GiB of the GPU`}. The readings below say who holds what. ` +
      "`ollama_gb` comes back by `soft_yield_ollama_vram`, `comfyui_gb` by `purge_comfyui_vram` (never while it " +
      "executes), `unmanaged_gb` by neither: name its processes and leave them alone. If what is wanted is free " +
      "already, say so and do nothing. Say what you are about to unload before you do. Memory is free only when the " +
      "outcome is `released`; report freed_gb and what still holds the rest.",
    reads: [["gpu", {}], ["arbitration", {}]],
  },
  {
    name: "is_my_overclock_worth_it",
    title: "Is my overclock worth it?",
    description: "Weighs a profile's measured gain against its noise, heat and power",
    arguments: [{
      name: "profile",
      description: "the profile in question; the active one when left out",
      values: { operation: "overclock", list: (answer) => namesIn(answer, "profiles") },
    }],
    text: ({ profile = "the active profile" }) =>
      `Is ${profile} worth it on this card? Use only what was measured here: the comparisons below carry n, spread and ` +
      "whether a difference stands out from noise. A lever whose verdict isn't `honoured` did nothing. If there are too " +
      "few samples, say how many more it takes instead of guessing. Give the gain in per cent beside the heat and power " +
      "it costs, and end with keep, change or drop. Change nothing unasked.",
    reads: [["analytics-profiles", {}], ["overclock", {}]],
  },
];

/** Gives a server its prompts. */
export function servePrompts(server: Server, invoker: Invoker): void {
  server.setRequestHandler("prompts/list", () => ({
    prompts: PROMPTS.map(({ name, title, description, arguments: args }) => ({
      name,
      title,
      description,
      arguments: args.map(({ name, description }) => ({ name, description, required: false })),
    })),
  }));
  server.setRequestHandler("prompts/get", async ({ params }, { mcpReq }) => {
    const prompt = PROMPTS.find(({ name }) => name === params.name);
    if (prompt === undefined) {
      const near = suggestion(params.name, PROMPTS.map(({ name }) => name));
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Cannot find a prompt named "${params.name}"${near}`);
    }
    const given = readArguments(prompt, params.arguments ?? {});
    const readings = await Promise.all(prompt.reads.map((read) => reading(read, { invoker, signal: mcpReq.signal })));
    return {
      description: prompt.description,
      messages: [{ role: "user", content: { type: "text", text: prompt.text(given) } }, ...readings],
    };
  });
}

/** Gives a server what completes the arguments of its prompts. */
export function serveCompletions(server: Server, invoker: Invoker): void {
  server.setRequestHandler("completion/complete", async ({ params }, { mcpReq }) => {
    const { ref, argument } = params;
    const prompt = ref.type === "ref/prompt" ? PROMPTS.find(({ name }) => name === ref.name) : undefined;
    const source = prompt?.arguments.find(({ name }) => name === argument.name)?.values;
    if (source === undefined) return { completion: { values: [], total: 0, hasMore: false } };
    const call = { signal: mcpReq.signal, progress: ignoreProgress };
    const outcome = await invoker.invoke(operationNamed(source.operation), {}, call);
    const typed = argument.value.toLowerCase();
    const fitting = (outcome.ok ? source.list(outcome.value) : []).filter((name) =>
      name.toLowerCase().startsWith(typed)
    );
    const values = fitting.slice(0, MAX_VALUES);
    return { completion: { values, total: fitting.length, hasMore: fitting.length > values.length } };
  });
}

/** Names of the things in one list of an answer. */
function namesIn(answer: Json, list: string): readonly string[] {
  const items = answer[list];
  return Array.isArray(items) ? items.flatMap((item) => typeof item?.name === "string" ? [item.name] : []) : [];
}

function readArguments(prompt: McpPrompt, given: Given): Given {
  const names = prompt.arguments.map(({ name }) => name);
  const unknown = Object.keys(given).find((name) => !names.includes(name));
  if (unknown !== undefined) {
    throw new ProtocolError(
      ProtocolErrorCode.InvalidParams,
      `Unknown argument "${unknown}" of ${prompt.name}${suggestion(unknown, names)}`,
    );
  }
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value.trim() !== ""));
}

/** A reading as part of the conversation; one that failed says why. */
async function reading(
  [name, input]: McpPrompt["reads"][number],
  { invoker, signal }: { readonly invoker: Invoker; readonly signal: AbortSignal },
): Promise<GetPromptResult["messages"][number]> {
  const operation = operationNamed(name);
  const outcome = await invoker.invoke(operation, input, { signal, progress: ignoreProgress });
  const tool = operation.tool === false ? `GET ${operation.http.path}` : operation.tool.name;
  const text = outcome.ok
    ? JSON.stringify(outcome.value)
    : `${outcome.message}${outcome.hint ? `. ${outcome.hint}` : ""}`;
  return { role: "user", content: { type: "text", text: `${tool}: ${text}` } };
}
