/** Validates a graph as ComfyUI 0.3.64 does, and says in which order it would run. */
import { describeInput, type InputSpec, NODE_CLASSES, type NodeClass } from "./comfy_nodes.ts";

export interface GraphNode {
  readonly class_type: string;
  readonly inputs?: Readonly<Record<string, unknown>>;
}
export type Graph = Readonly<Record<string, GraphNode>>;

export interface NodeError {
  readonly type: string;
  readonly message: string;
  readonly details: string;
  readonly extra_info: Readonly<Record<string, unknown>>;
}

interface NodeErrors {
  readonly errors: NodeError[];
  readonly dependent_outputs: string[];
  readonly class_type: string;
}

export type Validation =
  | {
    readonly ok: true;
    readonly outputs: readonly string[];
    readonly nodeErrors: Readonly<Record<string, NodeErrors>>;
  }
  | { readonly ok: false; readonly error: NodeError; readonly nodeErrors: Readonly<Record<string, NodeErrors>> };

type Files = (folder: string) => readonly string[];

export function validateGraph(graph: Readonly<Record<string, unknown>>, files: Files): Validation {
  for (const [id, node] of Object.entries(graph)) {
    const name = classOf(node);
    if (name !== null && NODE_CLASSES[name] !== undefined) continue;
    const message = name === null
      ? "Cannot execute because a node is missing the class_type property."
      : `Cannot execute because node ${name} does not exist.`;
    return refused(nodeError("invalid_prompt", { message, details: `Node ID '#${id}'` }));
  }
  // as: every entry has a known class_type; inputs are looked at one by one.
  const nodes = graph as Graph;
  const outputs = Object.keys(nodes).filter((id) => NODE_CLASSES[nodes[id]?.class_type ?? ""]?.isOutput);
  if (outputs.length === 0) return refused(nodeError("prompt_no_outputs", { message: "Prompt has no outputs" }));
  return validateOutputs(nodes, { outputs, files });
}

function validateOutputs(
  nodes: Graph,
  { outputs, files }: { readonly outputs: readonly string[]; readonly files: Files },
): Validation {
  const errors: Record<string, NodeErrors> = {};
  const good: string[] = [];
  let details = "";
  for (const output of outputs) {
    const found = new Map<string, NodeError[]>();
    const broken = checkNode(nodes, output, { files, found, seen: new Set() });
    if (broken !== null) {
      details ||= `Exception when validating node: '${broken}'`;
      found.set(output, [brokenLink(broken)]);
    }
    if (found.size === 0) good.push(output);
    for (const [id, list] of found) {
      errors[id] ??= { errors: list, dependent_outputs: [], class_type: nodes[id]?.class_type ?? "" };
      errors[id].dependent_outputs.push(output);
    }
  }
  if (good.length > 0) return { ok: true, outputs: good, nodeErrors: errors };
  const error = nodeError("prompt_outputs_failed_validation", { message: "Prompt outputs failed validation", details });
  return { ok: false, error, nodeErrors: errors };
}

/** Collects what is wrong with a node and its ancestors; a link to a node that isn't there breaks off, and is returned. */
function checkNode(
  nodes: Graph,
  id: string,
  check: { readonly files: Files; readonly found: Map<string, NodeError[]>; readonly seen: Set<string> },
): string | null {
  const node = nodes[id];
  if (node === undefined) return id;
  const nodeClass = NODE_CLASSES[node.class_type];
  if (nodeClass === undefined || check.seen.has(id)) return null;
  check.seen.add(id);
  const { files, found } = check;
  const errors: NodeError[] = [];
  for (const [name, spec] of Object.entries(nodeClass.inputs)) {
    const value = node.inputs?.[name];
    if (value === undefined) {
      if (!nodeClass.optional?.includes(name)) errors.push(missing(name));
      continue;
    }
    const from = linkOf(value);
    if (from === null) {
      const error = checkValue(value, { name, spec, files });
      if (error !== null) errors.push(error);
      continue;
    }
    const source = nodes[from.node];
    const broken = source === undefined ? from.node : checkNode(nodes, from.node, check);
    if (broken !== null) return broken;
    const error = source === undefined ? null : checkLink({ name, spec, given: outputOf(source, from.slot) });
    if (error !== null) errors.push(error);
  }
  if (errors.length > 0) found.set(id, errors);
  return null;
}

function checkValue(
  value: unknown,
  { name, spec, files }: { readonly name: string; readonly spec: InputSpec; readonly files: Files },
): NodeError | null {
  const extra = { input_name: name, input_config: describeInput(spec, files), received_value: value };
  if (spec.type === "INT" || spec.type === "FLOAT") {
    const number = Number(value);
    if (Number.isNaN(number)) {
      return nodeError("invalid_input_type", {
        message: `Failed to convert an input value to a ${spec.type} value`,
        details: name,
        extra,
      });
    }
    const isLow = number < spec.min;
    if (!isLow && number <= spec.max) return null;
    const [type, word, bound] = isLow
      ? ["value_smaller_than_min", "smaller than min", spec.min]
      : ["value_bigger_than_max", "bigger than max", spec.max];
    return nodeError(String(type), { message: `Value ${number} ${word} of ${bound}`, details: name, extra });
  }
  const choices = spec.type === "FILE" ? files(spec.folder) : spec.type === "COMBO" ? spec.choices : null;
  if (choices === null || (typeof value === "string" && choices.includes(value))) return null;
  const list = choices.length > 20
    ? `(list of length ${choices.length})`
    : `[${choices.map((it) => `'${it}'`).join(", ")}]`;
  const message = "Value not in list";
  return nodeError("value_not_in_list", { message, details: `${name}: '${value}' not in ${list}`, extra });
}

function checkLink({ name, spec, given }: {
  readonly name: string;
  readonly spec: InputSpec;
  readonly given: string | undefined;
}): NodeError | null {
  if (spec.type !== "LINK" || given === spec.of) return null;
  const message = "Return type mismatch between linked nodes";
  const details = `${name}, received_type(${given}) mismatch input_type(${spec.of})`;
  const extra = { input_name: name, received_type: given ?? null };
  return nodeError("return_type_mismatch", { message, details, extra });
}

/** `["node", slot]`, or null for a plain value. */
export function linkOf(value: unknown): { readonly node: string; readonly slot: number } | null {
  if (!Array.isArray(value) || value.length !== 2) return null;
  const [node, slot]: readonly unknown[] = value;
  return typeof node === "string" && typeof slot === "number" ? { node, slot } : null;
}

/** Every node that these outputs need, ancestors first. */
export function executionOrder(graph: Graph, outputs: readonly string[]): readonly string[] {
  const order: string[] = [];
  const seen = new Set<string>();
  const visit = (id: string) => {
    if (seen.has(id)) return;
    seen.add(id);
    for (const value of Object.values(graph[id]?.inputs ?? {})) {
      const from = linkOf(value);
      if (from !== null) visit(from.node);
    }
    order.push(id);
  };
  outputs.forEach(visit);
  return order;
}

/** What a node's result depends on: class, values, and its ancestors' signatures; node ids don't matter. */
export function signatureOf(graph: Graph, id: string): string {
  const node = graph[id];
  if (node === undefined) return "";
  const inputs = Object.entries(node.inputs ?? {}).sort(([a], [b]) => a < b ? -1 : 1).map(([name, value]) => {
    const from = linkOf(value);
    return [name, from === null ? value : [signatureOf(graph, from.node), from.slot]];
  });
  return JSON.stringify([node.class_type, inputs]);
}

function classOf(node: unknown): string | null {
  if (typeof node !== "object" || node === null || !("class_type" in node)) return null;
  return typeof node.class_type === "string" ? node.class_type : null;
}

function outputOf(node: GraphNode, slot: number): string | undefined {
  const nodeClass: NodeClass | undefined = NODE_CLASSES[node.class_type];
  return nodeClass?.outputs[slot];
}

function nodeError(
  type: string,
  { message, details = "", extra = {} }: {
    readonly message: string;
    readonly details?: string;
    readonly extra?: Readonly<Record<string, unknown>>;
  },
): NodeError {
  return { type, message, details, extra_info: extra };
}

function missing(name: string): NodeError {
  const message = "Required input is missing";
  return nodeError("required_input_missing", { message, details: name, extra: { input_name: name } });
}

function brokenLink(node: string): NodeError {
  const extra = { exception_type: "KeyError", traceback: [`  File "/opt/ComfyUI/execution.py", in validate_inputs\n`] };
  const message = "Exception when validating node";
  return nodeError("exception_during_validation", { message, details: `'${node}'`, extra });
}

function refused(error: NodeError): Validation {
  return { ok: false, error, nodeErrors: {} };
}
