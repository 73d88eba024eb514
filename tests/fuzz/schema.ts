/** JSON Schema 2020-12, as far as our OpenAPI document uses it: what doesn't fit, and values that do. */

// deno-lint-ignore no-explicit-any -- a schema is whatever JSON the document holds
export type Schema = any;

/** Where and why a value doesn't fit; empty when it does. `root` is the document that references point into. */
export function violations(
  schema: Schema,
  value: unknown,
  at: { readonly root: Schema; readonly path?: string },
): string[] {
  const { root, path = "" } = at;
  const wrong = (why: string) => [`${path || "/"}: ${why}`];
  if (schema === true || schema === undefined) return [];
  if (schema === false) return wrong("nothing may stand here");
  if (schema.$ref !== undefined) return violations(resolve(root, schema.$ref), value, at);
  const found: string[] = [];
  if (schema.const !== undefined && value !== schema.const) {
    found.push(...wrong(`isn't ${JSON.stringify(schema.const)}`));
  }
  if (schema.enum !== undefined && !schema.enum.includes(value)) found.push(...wrong(`isn't in ${schema.enum}`));
  if (schema.type !== undefined) {
    const types: string[] = Array.isArray(schema.type) ? schema.type : [schema.type];
    if (!types.some((type) => isOf(type, value))) {
      return wrong(`isn't ${types.join(" or ")} but ${JSON.stringify(value)}`);
    }
  }
  for (const [key, combine] of [["anyOf", "some"], ["oneOf", "one"], ["allOf", "every"]] as const) {
    if (schema[key] === undefined) continue;
    const each: string[][] = schema[key].map((part: Schema) => violations(part, value, at));
    const fitting = each.filter((list) => list.length === 0).length;
    const isMet = combine === "every" ? fitting === each.length : combine === "one" ? fitting === 1 : fitting > 0;
    if (!isMet) {
      found.push(...wrong(`${key}: ${fitting} of ${each.length} fit (${each.flat().slice(0, 3).join("; ")})`));
    }
  }
  if (typeof value === "number") found.push(...numberViolations(schema, value).flatMap(wrong));
  if (typeof value === "string") {
    if (value.length < (schema.minLength ?? 0)) found.push(...wrong("is too short"));
    if (schema.pattern !== undefined && !new RegExp(schema.pattern, "u").test(value)) {
      found.push(...wrong("has another form"));
    }
  }
  if (Array.isArray(value)) {
    if (value.length < (schema.minItems ?? 0)) found.push(...wrong("has too few items"));
    value.forEach((item, n) => found.push(...violations(schema.items, item, { root, path: `${path}/${n}` })));
  } else if (typeof value === "object" && value !== null) {
    found.push(...objectViolations(schema, value as Record<string, unknown>, { root, path }));
  }
  return found;
}

function numberViolations(schema: Schema, value: number): string[] {
  const found: string[] = [];
  if (schema.minimum !== undefined && value < schema.minimum) found.push(`is below ${schema.minimum}`);
  if (schema.maximum !== undefined && value > schema.maximum) found.push(`is above ${schema.maximum}`);
  if (schema.exclusiveMinimum !== undefined && value <= schema.exclusiveMinimum) found.push("is too small");
  return found;
}

function objectViolations(
  schema: Schema,
  value: Record<string, unknown>,
  { root, path }: { readonly root: Schema; readonly path: string },
): string[] {
  const found: string[] = [];
  for (const name of schema.required ?? []) if (!Object.hasOwn(value, name)) found.push(`${path}/${name}: is missing`);
  for (const [name, item] of Object.entries(value)) {
    const own = schema.properties?.[name] ?? schema.additionalProperties;
    found.push(...violations(own, item, { root, path: `${path}/${name}` }));
    found.push(...violations(schema.propertyNames, name, { root, path: `${path}/${name} (name)` }));
  }
  return found;
}

function isOf(type: string, value: unknown): boolean {
  switch (type) {
    case "null":
      return value === null;
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    case "object":
      return typeof value === "object" && value !== null && !Array.isArray(value);
    case "string":
      return typeof value === "string";
    case "number":
      return typeof value === "number";
    case "boolean":
      return typeof value === "boolean";
    default:
      throw new TypeError(`Cannot check the type ${type}`);
  }
}

export function resolve(root: Schema, pointer: string): Schema {
  return pointer.replace(/^#\//, "").split("/").reduce(
    (at, key) => at?.[key.replaceAll("~1", "/").replaceAll("~0", "~")],
    root,
  );
}
