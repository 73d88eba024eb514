/**
 * What an operation takes, read once for every door: aliases, absent nulls, unknown names, text that means a number,
 * and refusals that say what was wrong and what would be right.
 */
import * as z from "zod";
import { didYouMean } from "../model/did_you_mean.ts";
import { refused } from "./outcome.ts";
import type { Refused } from "./outcome.ts";

export type ParameterKind = "string" | "number" | "integer" | "boolean" | "list";

/** One parameter, as flags, query fields and documents need it. */
export interface Parameter {
  readonly name: string;
  readonly kind: ParameterKind;
  /** Kind of a list's items; null otherwise. */
  readonly itemKind: ParameterKind | null;
  readonly choices: readonly string[] | null;
  readonly required: boolean;
  readonly default: unknown;
  readonly description: string;
  readonly minimum: number | null;
  /** True: the minimum itself is too small. */
  readonly isMinimumExclusive: boolean;
  readonly maximum: number | null;
  readonly aliases: readonly string[];
}

export type Aliases = Readonly<Record<string, string>>;

type JsonSchema = Readonly<Record<string, unknown>>;

/** The parameters of an input schema, in the order they were written. */
export function readParameters(input: z.ZodObject, aliases: Aliases): readonly Parameter[] {
  const schema = z.toJSONSchema(input, { io: "input" });
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, property]) => {
    // toJSONSchema writes `true` only for unconstrained values, which no parameter is.
    const spec = property as JsonSchema;
    const kind = kindOf(spec);
    return {
      name,
      kind,
      itemKind: kind === "list" ? kindOf(spec["items"] as JsonSchema) : null,
      choices: Array.isArray(spec["enum"]) ? spec["enum"].map(String) : null,
      required: required.has(name),
      default: spec["default"],
      description: typeof spec["description"] === "string" ? spec["description"] : "",
      minimum: bound(spec["minimum"] ?? spec["exclusiveMinimum"]),
      isMinimumExclusive: spec["exclusiveMinimum"] !== undefined,
      maximum: bound(spec["maximum"]),
      aliases: Object.keys(aliases).filter((alias) => aliases[alias] === name),
    };
  });
}

function kindOf(spec: JsonSchema): ParameterKind {
  switch (spec["type"]) {
    case "integer":
    case "number":
    case "boolean":
      return spec["type"];
    case "array":
      return "list";
    default:
      return "string";
  }
}

/** JSON Schema writes the safe-integer limits of every `int()`; they are no bound that anyone chose. */
function bound(value: unknown): number | null {
  return typeof value === "number" && Math.abs(value) < Number.MAX_SAFE_INTEGER ? value : null;
}

/** A value given as text (query, flag) as the parameter's kind reads it; what can't be read stays text and is refused. */
export function fromText(parameter: Parameter, text: string): unknown {
  return parameter.kind === "list"
    ? text.split(",").map((part) => scalarFromText(parameter.itemKind ?? "string", part.trim()))
    : scalarFromText(parameter.kind, text);
}

function scalarFromText(kind: ParameterKind, text: string): unknown {
  if (kind === "boolean") {
    return text === "true" || text === "1" ? true : text === "false" || text === "0" ? false : text;
  }
  const isNumeric = kind === "number" || kind === "integer";
  return isNumeric && /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text.trim()) ? Number(text) : text;
}

export type ReadInput = { readonly ok: true; readonly data: Readonly<Record<string, unknown>> } | Refused;

/** Checks what a caller sent against the input schema. `null` counts as absent. */
export function readInput(
  raw: unknown,
  spec: { readonly input: z.ZodObject; readonly aliases: Aliases; readonly parameters: readonly Parameter[] },
): ReadInput {
  if (typeof raw !== "object" || raw === null || Array.isArray(raw)) {
    return refused("invalid_input", `Parameters must be an object, not ${describe(raw)}`);
  }
  const named = resolveNames(raw, spec);
  if (!named.ok) return named;
  const parsed = spec.input.safeParse(named.data);
  return parsed.success
    ? { ok: true, data: parsed.data }
    : refuseIssues(parsed.error.issues, named.data, spec.parameters);
}

/** Aliases become names, nulls go, and a name that nobody knows is refused. */
function resolveNames(raw: object, spec: { aliases: Aliases; parameters: readonly Parameter[] }): ReadInput {
  const data: Record<string, unknown> = {};
  const known = new Map(spec.parameters.map((parameter) => [parameter.name, parameter]));
  for (const [given, value] of Object.entries(raw)) {
    const name = known.has(given) ? given : Object.hasOwn(spec.aliases, given) ? spec.aliases[given]! : null;
    if (name === null) {
      const takes = spec.parameters.map((parameter) => parameter.name);
      const names = [...takes, ...Object.keys(spec.aliases)];
      return refused("invalid_input", `Unknown parameter "${given}"${suggestion(given, names)}`, {
        hint: takes.length === 0 ? "It takes no parameters" : `It takes ${takes.join(", ")}`,
        details: { parameter: given },
      });
    }
    if (value === null || value === undefined) continue;
    if (Object.hasOwn(data, name) && JSON.stringify(data[name]) !== JSON.stringify(value)) {
      return refused("invalid_input", `Parameter ${name} was given twice, with different values`, {
        hint: `${known.get(name)?.aliases.join(", ") || name} is another name of ${name}: send one of them`,
        details: { parameter: name },
      });
    }
    data[name] = value;
  }
  return { ok: true, data };
}

function refuseIssues(
  issues: readonly z.core.$ZodIssue[],
  data: Readonly<Record<string, unknown>>,
  parameters: readonly Parameter[],
): Refused {
  const named = issues.map((issue) => {
    const name = String(issue.path[0] ?? "");
    const parameter = parameters.find((candidate) => candidate.name === name) ?? null;
    return { name, parameter, message: messageFor(issue, { name, value: valueAt(data, issue.path), parameter }) };
  });
  const first = named[0];
  return refused("invalid_input", named.map(({ message }) => message).join("; "), {
    hint: first?.parameter == null ? null : usageOf(first.parameter),
    details: { parameter: first?.name ?? null },
  });
}

function valueAt(data: unknown, path: readonly PropertyKey[]): unknown {
  let at = data;
  for (const key of path) at = typeof at === "object" && at !== null ? Reflect.get(at, key) : undefined;
  return at;
}

function messageFor(
  issue: z.core.$ZodIssue,
  at: { readonly name: string; readonly value: unknown; readonly parameter: Parameter | null },
): string {
  const { name, value, parameter } = at;
  if (value === undefined && issue.code !== "custom") return `Parameter ${name} is missing`;
  if (issue.code === "custom") return issue.message;
  if (issue.code === "invalid_value" && issue.path.length > 1) {
    const options = issue.values.map(String);
    const near = typeof value === "string" ? suggestion(value, options) : "";
    return `Parameter ${name} must be made of ${options.join(", ")}, not ${describe(value)}${near}`;
  }
  const wanted = parameter === null ? "as documented" : wantedOf(parameter, issue.path.length > 1);
  const near = typeof value === "string" && parameter?.choices ? suggestion(value, parameter.choices) : "";
  return `Parameter ${name} must be ${wanted}, not ${describe(value)}${near}`;
}

/** What would be right, in words: "a whole number from 1 to 1000". */
export function wantedOf(parameter: Parameter, isItem = false): string {
  if (parameter.choices !== null) return `one of ${parameter.choices.join(", ")}`;
  const kind = isItem ? parameter.itemKind ?? "string" : parameter.kind;
  const { minimum, maximum } = parameter;
  const range = minimum !== null && maximum !== null
    ? parameter.isMinimumExclusive ? ` above ${minimum} and at most ${maximum}` : ` from ${minimum} to ${maximum}`
    : minimum !== null
    ? ` ${parameter.isMinimumExclusive ? "above" : "of at least"} ${minimum}`
    : maximum !== null
    ? ` of at most ${maximum}`
    : "";
  switch (kind) {
    case "integer":
      return `a whole number${range}`;
    case "number":
      return `a number${range}`;
    case "boolean":
      return "true or false";
    case "list":
      return `a list of ${parameter.itemKind === "number" ? "numbers" : "names"}`;
    case "string":
      return "a non-empty text";
  }
}

function usageOf(parameter: Parameter): string {
  const isOptional = parameter.default === undefined ? "" : `; ${JSON.stringify(parameter.default)} when left out`;
  const about = parameter.description === "" ? "" : ` (${parameter.description})`;
  return `${parameter.name} is ${wantedOf(parameter)}${about}${isOptional}`;
}

/** `; did you mean "x"?`, or nothing. */
export function suggestion(typed: string, candidates: readonly string[]): string {
  const near = didYouMean(typed, candidates);
  return near === null ? "" : `; did you mean "${near}"?`;
}

/** A value as a person would name it, cut short: it may be anything. */
function describe(value: unknown): string {
  if (value === undefined) return "nothing";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object" && value !== null) return "an object";
  // JSON knows no Infinity, which is what 1e999 is read as.
  const text = typeof value === "number" ? String(value) : JSON.stringify(value);
  return text.length > 60 ? `${text.slice(0, 57)}…"` : text;
}
