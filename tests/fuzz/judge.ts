/** What the document says about an answer, and what must hold of every answer. */
import { described, type FuzzRequest } from "./generate.ts";
import { type Schema, violations } from "./schema.ts";

export interface FuzzAnswer {
  readonly status: number;
  readonly contentType: string;
  readonly text: string;
  readonly tookMs: number;
}

/** Statuses of a path that is no operation's, and of a caller who is turned away before it is looked at. */
const ANYWHERE = [200, 204, 304, 400, 401, 403, 404, 405, 406, 413, 415, 426];

/** What is wrong with an answer; empty when nothing is. */
export function faults(document: Schema, request: FuzzRequest, answer: FuzzAnswer): string[] {
  const { status, text, contentType } = answer;
  const found: string[] = [];
  const own = described(document).find(({ operation }) => operation.operationId === request.operationId) ?? null;
  const responses = own === null ? null : own.operation.responses;
  if (status === 500) found.push(`500: ${text.slice(0, 300)}`);
  if (
    responses === null ? !ANYWHERE.includes(status) : responses[status] === undefined && ![304, 413].includes(status)
  ) {
    found.push(`${status} isn't documented: ${text.slice(0, 200)}`);
  }
  if (status === 304 || status === 204 || request.method === "HEAD" || contentType.startsWith("text/event-stream")) {
    return found;
  }
  if (responses === null && status === 200) return found;
  const types = Object.keys(responses?.[status]?.content ?? {});
  if (status === 200 && types.some((type) => type !== "application/json" && contentType.startsWith(type))) return found;
  if (!contentType.startsWith("application/json")) return [...found, `${status} of type ${contentType}`];
  const schema = status >= 400
    ? { $ref: "#/components/schemas/Error" }
    : responses?.[status]?.content?.["application/json"]?.schema;
  const body = parse(text);
  if (body === undefined) return [...found, `${status} is no JSON: ${text.slice(0, 100)}`];
  return [...found, ...violations(schema, body, { root: document }).slice(0, 5).map((why) => `${status} ${why}`)];
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
