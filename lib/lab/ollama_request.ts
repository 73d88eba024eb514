/** The requests of the simulated Ollama, with the errors that Go's decoder and the server's own checks give. */
import { type KeepAlive, parseKeepAlive } from "./keep_alive.ts";
import type { Json } from "./ollama_bodies.ts";
import { OllamaRefusal } from "./ollama_scheduler.ts";
import { type LoadOptions } from "./runner_args.ts";

export interface AskBody {
  /** As sent. */
  readonly model: string;
  readonly keepAlive: KeepAlive;
  readonly isStreamed: boolean;
  readonly options: LoadOptions;
  /** Null: the model stops by itself. */
  readonly maxTokens: number | null;
  readonly fields: Json;
}

/** Parses a body into an object; `type` is the Go type that the decoder names. */
export function parseBody(text: string, type: string): Json {
  if (text.trim() === "") throw new OllamaRefusal(400, "missing request body");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new OllamaRefusal(400, decoderError(text));
  }
  if (Array.isArray(value)) {
    throw new OllamaRefusal(400, `json: cannot unmarshal array into Go value of type api.${type}`);
  }
  if (typeof value !== "object" || value === null) {
    throw new OllamaRefusal(400, `json: cannot unmarshal ${typeof value} into Go value of type api.${type}`);
  }
  // as: neither null nor an array, so an object with string keys.
  return value as Json;
}

export function parseAsk(text: string, type: string): AskBody {
  const fields = parseBody(text, type);
  const model = fields["model"] ?? "";
  if (typeof model !== "string") {
    const given = typeof model === "object" ? "object" : typeof model;
    const error = `json: cannot unmarshal ${given} into Go struct field ${type}.model of type string`;
    throw new OllamaRefusal(400, error);
  }
  const keepAlive = parseKeepAlive(fields["keep_alive"]);
  if (keepAlive.kind === "invalid") throw new OllamaRefusal(400, keepAlive.error);
  const options = fields["options"];
  // as: whatever isn't an object has no options in it.
  const given = (typeof options === "object" && options !== null ? options : {}) as Json;
  return {
    model,
    keepAlive,
    isStreamed: fields["stream"] !== false,
    options: {
      numCtx: integer(given, "num_ctx"),
      numGpu: integer(given, "num_gpu"),
      numBatch: integer(given, "num_batch"),
      useMmap: typeof given["use_mmap"] === "boolean" ? given["use_mmap"] : null,
    },
    maxTokens: integer(given, "num_predict"),
    fields,
  };
}

/** True for `keep_alive: 0` in every form it has. */
export function isUnload(keepAlive: KeepAlive): boolean {
  return keepAlive.kind === "given" && keepAlive.ms === 0;
}

function integer(options: Json, name: string): number | null {
  const value = options[name];
  if (value === undefined || value === null) return null;
  if (typeof value !== "number") throw new OllamaRefusal(500, `option "${name}" must be of type integer`);
  return Math.trunc(value);
}

function decoderError(text: string): string {
  const first = text.trim().charAt(0);
  if ('{["'.includes(first)) return "unexpected EOF";
  return `invalid character '${first}' looking for beginning of value`;
}
