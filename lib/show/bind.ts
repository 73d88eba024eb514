/** What a request carries (path, query, body) as an operation's raw input; what it means is checked by `invoke`. */
import { Failure, messageOf } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Operation } from "../operations/operation.ts";
import { fromText } from "../operations/parameters.ts";

/** Largest body: parameters are names and numbers. */
export const MAX_BODY_BYTES = 64 * 1024;

/** How long a body may take to arrive. */
const BODY_MS = 10_000;

export interface Bindable {
  readonly request: Request;
  readonly url: URL;
  readonly path: Readonly<Record<string, string>>;
}

/** The raw input of a call; throws Failure for a body that isn't JSON, is too large, or repeats the query differently. */
export async function bindInput(operation: Operation, from: Bindable): Promise<Record<string, unknown>> {
  const query = bindQuery(operation, from.url.searchParams);
  const body = operation.http.method === "POST" ? await readBody(from.request) : {};
  const input: Record<string, unknown> = { ...query, ...body };
  for (const [name, value] of Object.entries(query)) {
    if (Object.hasOwn(body, name) && JSON.stringify(body[name]) !== JSON.stringify(value)) {
      throw new Failure("invalid_input", `Parameter ${name} was given twice, with different values`, {
        hint: "Send it in the query or in the body",
        details: { parameter: name },
      });
    }
  }
  return { ...input, ...from.path };
}

/** Query fields by the parameters' kinds; a list may be repeated or separated by commas. */
export function bindQuery(
  operation: Pick<Operation, "name" | "http" | "parameters" | "aliases">,
  query: URLSearchParams,
): Record<string, unknown> {
  const bound: Record<string, unknown> = {};
  for (const given of new Set(query.keys())) {
    const name = operation.aliases[given] ?? given;
    const parameter = operation.parameters.find((candidate) => candidate.name === name) ?? null;
    const texts = query.getAll(given);
    if (parameter !== null && operation.http.method === "POST" && !operation.http.query?.includes(name)) {
      throw new Failure("invalid_input", `Parameter ${given} belongs in the body`, {
        hint: `Send {"${given}": …} as JSON`,
        details: { parameter: given },
      });
    }
    if (parameter?.kind === "list") {
      bound[given] = texts.flatMap((text) => fromText(parameter, text));
    } else if (texts.length > 1) {
      throw new Failure("invalid_input", `Parameter ${given} was given ${texts.length} times`, {
        details: { parameter: given },
      });
    } else {
      // An unknown name goes on as text: `invoke` refuses it with a suggestion.
      bound[given] = parameter === null ? texts[0] : fromText(parameter, texts[0]!);
    }
  }
  return bound;
}

/** A JSON object, or `{}` for an empty body. */
export async function readBody(request: Request): Promise<Record<string, unknown>> {
  const text = await readText(request);
  if (text.trim() === "") return {};
  const type = request.headers.get("content-type") ?? "";
  // A form's types are what a foreign page may send without asking: JSON has to be said.
  if (!/^application\/(json|[\w.-]+\+json)\s*(;|$)/i.test(type)) {
    throw new Failure(
      "invalid_input",
      `Cannot read a body of type ${JSON.stringify(type)}: it must be application/json`,
      {
        hint: "Send the header content-type: application/json",
      },
    );
  }
  const value = parseJson(text);
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    // Narrowed to a JSON object, whose keys are strings.
    return value as Record<string, unknown>;
  }
  throw new Failure("invalid_input", "Cannot use the body: it must be a JSON object", {
    hint: 'For example {"model": "llama3.2:1b"}',
  });
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new Failure("invalid_input", `Cannot read the body as JSON: ${why}`, {
      hint: "Names and texts stand in double quotes, and nothing follows the last value",
      cause: error,
    });
  }
}

async function readText(request: Request): Promise<string> {
  if (request.body === null) return "";
  const encoding = request.headers.get("content-encoding") ?? "identity";
  if (encoding.toLowerCase() !== "identity") {
    throw new Failure("invalid_input", `Cannot read a body encoded as ${JSON.stringify(encoding)}`, {
      hint: "Send it as it is: it holds a few names and numbers",
    });
  }
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(await request.arrayBuffer());
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    throw new Failure("invalid_input", "Cannot read the body: it is not UTF-8", {
      hint: "JSON is sent as UTF-8",
      cause: error,
    });
  }
}

/**
 * The same request with its body read: at most MAX_BODY_BYTES, and within BODY_MS. Who sends a byte a minute is refused
 * here, whatever door it meant.
 */
export async function withWholeBody(request: Request, clock: Pick<Clock, "after">): Promise<Request> {
  if (request.body === null) return request;
  if (Number(request.headers.get("content-length") ?? 0) > MAX_BODY_BYTES) throw tooLarge();
  const reader = request.body.getReader();
  let isLate = false;
  const timer = clock.after(BODY_MS, () => {
    isLate = true;
    // Ends the read that waits; a connection that is gone already has nothing to cancel.
    reader.cancel().catch(() => undefined);
  });
  const chunks: Uint8Array<ArrayBuffer>[] = [];
  let bytes = 0;
  try {
    for (let next = await reader.read(); !next.done; next = await reader.read()) {
      bytes += next.value.byteLength;
      if (bytes > MAX_BODY_BYTES) throw tooLarge();
      chunks.push(next.value);
    }
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure("invalid_input", `Cannot read the body: ${messageOf(error)}`, { cause: error });
  } finally {
    timer.stop();
  }
  if (isLate) throw new Failure("invalid_input", `Cannot read the body: it took more than ${BODY_MS / 1000} s to come`);
  return new Request(request, { body: new Blob(chunks) });
}

function tooLarge(): Failure {
  return new Failure("too_large", `Cannot take a body of more than ${MAX_BODY_BYTES / 1024} KiB`, {
    hint: "Parameters are names and numbers: send only those",
  });
}
