/** An operation's input and output as JSON Schema, for OpenAPI and for MCP tools. */
import * as z from "zod";
import type { Operation } from "../operations/operation.ts";
import type { Parameter } from "../operations/parameters.ts";
import { RunWire } from "../operations/run_view.ts";

export type Json = Readonly<Record<string, unknown>>;

/** zod writes the safe-integer limits beside every `int()`; they are no bound that anyone chose. */
export function dropSafeLimits({ jsonSchema }: { jsonSchema: { minimum?: number; maximum?: number } }): void {
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

/** The schema of an object with these parameters, their aliases beside them. */
export function inputSchema(operation: Operation, parameters: readonly Parameter[] = operation.parameters): Json {
  const properties = inputProperties(operation);
  const own = parameters.map(({ name }) => [name, properties[name] ?? {}] as const);
  const aliases = parameters.flatMap(({ name, aliases }) =>
    aliases.map((alias) => [alias, { ...properties[name], description: `the same as ${name}` }] as const)
  );
  const required = parameters.filter((parameter) => parameter.required);
  // A required parameter may come under its alias; JSON Schema could say that only at length, and `invoke` checks it.
  const isSaid = required.length > 0 && required.every((parameter) => parameter.aliases.length === 0);
  return {
    type: "object",
    properties: Object.fromEntries([...own, ...aliases]),
    ...(isSaid ? { required: required.map(({ name }) => name) } : {}),
    additionalProperties: false,
  };
}

/** Each parameter's own schema, by name. */
export function inputProperties(operation: { readonly input: z.ZodObject }): Readonly<Record<string, Json>> {
  const { properties = {} } = z.toJSONSchema(operation.input, { io: "input", override: dropSafeLimits });
  // `true` and `false` are schemas too, but zod writes them only for `unknown` and `never`, which no parameter is.
  return Object.fromEntries(
    Object.entries(properties).map(([name, schema]) => [name, typeof schema === "object" ? schema : {}]),
  );
}

/** The schema of an answer; long work may answer with its run instead. */
export function outputSchema(operation: Pick<Operation, "output" | "isLong">): Json {
  const own = plain(operation.output);
  return operation.isLong ? { type: "object", anyOf: [own, plain(RunWire)] } : own;
}

function plain(schema: z.ZodType): Json {
  const { $schema: _dialect, ...rest } = z.toJSONSchema(schema, { io: "output", override: dropSafeLimits });
  return rest;
}
