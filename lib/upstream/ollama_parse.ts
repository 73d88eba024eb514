import { NOTHING_TOLD, type RunnerTold } from "../model/ports.ts";
import type { InstalledModel, ResidentModel } from "../model/tenants.ts";
import type { WallMs } from "../model/units.ts";
import { errorMessage, InBandError } from "./error_text.ts";
import {
  filledField,
  isRecord,
  type JsonRecord,
  listField,
  MalformedBody,
  numberField,
  parseJson,
  parseRecord,
  recordField,
  textField,
} from "./json_fields.ts";

/** Reads what Ollama answers, both generations. Every parser takes text and throws MalformedBody. */

const NS_PER_MS = 1e6;

/** `/api/version`. */
export function parseVersion(text: string): string {
  const version = filledField(parseRecord(text), "version");
  if (version === null) throw new MalformedBody("version is missing");
  return version;
}

/** `/api/ps`. */
export function parsePs(text: string): readonly ResidentModel[] {
  return modelRows(text).map((row) => ({
    name: nameOf(row),
    digest: digestOf(row),
    sizeBytes: requiredNumber(row, "size"),
    sizeVramBytes: requiredNumber(row, "size_vram"),
    expiresAtMs: timeField(row, "expires_at"),
    contextLength: numberField(row, "context_length"),
  }));
}

/** `/api/tags`. Cloud stubs carry a `remote_*` field and have no weights. */
export function parseTags(text: string): readonly InstalledModel[] {
  return modelRows(text).map((row) => {
    const details = recordField(row, "details") ?? {};
    return {
      name: nameOf(row),
      digest: digestOf(row),
      sizeBytes: requiredNumber(row, "size"),
      modifiedAtMs: timeField(row, "modified_at"),
      family: filledField(details, "family"),
      parameterSize: filledField(details, "parameter_size"),
      quantization: filledField(details, "quantization_level"),
      format: filledField(details, "format"),
      isRemote: filledField(row, "remote_host") !== null || filledField(row, "remote_model") !== null,
    };
  });
}

/**
 * Blob names (`sha256-…`) in `/api/show`'s modelfile, the one a runner's `--model` names first, then projectors and
 * adapters. Empty for safetensors, whose modelfile names no blob.
 */
export function parseWeightBlobs(text: string): readonly string[] {
  const modelfile = textField(parseRecord(text), "modelfile") ?? "";
  const blobs = modelfile.split("\n").flatMap((line) => {
    const blob = /^\s*(?:FROM|ADAPTER)\s.*\b(sha256-[0-9a-f]{64})\b/i.exec(line)?.[1];
    return blob === undefined ? [] : [blob.toLowerCase()];
  });
  return [...new Set(blobs)];
}

/** An answer of generate, chat or embed. Metrics that Go left out because they are zero are null. */
export interface Generation {
  readonly text: string;
  /** False: it ended without saying so (a runner that repeats itself is cut off silently). */
  readonly isDone: boolean;
  /** "stop", "length", "load", "unload", or null. */
  readonly doneReason: string | null;
  readonly totalDurationMs: number | null;
  /** From the request to the runner's readiness: queueing and evictions included. */
  readonly loadDurationMs: number | null;
  readonly promptTokens: number | null;
  readonly promptDurationMs: number | null;
  readonly tokens: number | null;
  readonly tokensDurationMs: number | null;
}

/** One JSON body or a stream of lines; throws InBandError when any of them carries an error. */
export function parseGeneration(text: string): Generation {
  const frames = text.split("\n").filter((line) => line.trim() !== "").map(parseFrame);
  const last = frames.at(-1);
  if (last === undefined) throw new MalformedBody("body is empty");
  return {
    text: frames.map(frameText).join(""),
    isDone: last["done"] === true,
    doneReason: filledField(last, "done_reason"),
    totalDurationMs: durationField(last, "total_duration"),
    loadDurationMs: durationField(last, "load_duration"),
    promptTokens: numberField(last, "prompt_eval_count"),
    promptDurationMs: durationField(last, "prompt_eval_duration"),
    tokens: numberField(last, "eval_count"),
    tokensDurationMs: durationField(last, "eval_duration"),
  };
}

/** `/api/embed`: only its durations matter here; both are null when the input was empty. */
export function parseEmbed(text: string): Pick<Generation, "totalDurationMs" | "loadDurationMs"> {
  const body = parseFrame(text);
  if (listField(body, "embeddings") === null) throw new MalformedBody("embeddings are missing");
  return {
    totalDurationMs: durationField(body, "total_duration"),
    loadDurationMs: durationField(body, "load_duration"),
  };
}

/** Fewer say nothing: the first token comes with the prompt, and one alone gives 10⁶ tokens a second. */
const TOKENS_TO_TELL = 8;

/** Decode rate; null when too few tokens came to tell. */
export function tokensPerSecond({ tokens, tokensDurationMs }: Generation): number | null {
  if (tokens === null || tokensDurationMs === null || tokens < TOKENS_TO_TELL || tokensDurationMs <= 0) return null;
  return (tokens / tokensDurationMs) * 1000;
}

function parseFrame(line: string): JsonRecord {
  const frame = parseRecord(line);
  if (frame["error"] !== undefined) throw new InBandError(errorMessage(line) ?? "error without text");
  return frame;
}

function frameText(frame: JsonRecord): string {
  const message = recordField(frame, "message");
  return (message === null ? textField(frame, "response") : textField(message, "content")) ?? "";
}

type RunnerWord = RunnerTold["activity"];

/** Status numbers of the `ollama runner` generation's `/health`; 0 (ready) is said while it generates, too. */
const HEALTH_WORDS: Readonly<Record<number, RunnerWord>> = { 1: "busy", 2: "loading", 3: "loading" };

/** A runner's `/health`: numbers (`ollama runner`), or words (llama-server: 503 while loading). */
export function parseRunnerHealth(text: string): RunnerWord {
  const body = parseRecord(text);
  const status = body["status"];
  if (typeof status === "number") return HEALTH_WORDS[status] ?? null;
  const words = typeof status === "string" ? status : errorMessage(text) ?? "";
  if (/loading/i.test(words)) return "loading";
  return /no slot available/i.test(words) ? "busy" : null;
}

/** llama-server's `/slots`: busy when any slot works. What is no list of slots says nothing. */
export function parseRunnerSlots(text: string): RunnerTold {
  const body = parseJson(text);
  const slots = Array.isArray(body) ? body.filter(isRecord) : [];
  const known = slots.filter((slot) => typeof slot["is_processing"] === "boolean");
  if (known.length === 0) return NOTHING_TOLD;
  const busy = known.filter((slot) => slot["is_processing"] === true);
  if (busy.length === 0) return { activity: "idle", tokensLeft: null };
  const left = busy.map(tokensLeft);
  // Slots work side by side: the one with most to do is the last.
  return { activity: "busy", tokensLeft: left.includes(null) ? null : Math.max(...left.map((count) => count ?? 0)) };
}

/** `n_remain` of a slot's next token: -1 for an answer without a bound. */
function tokensLeft(slot: JsonRecord): number | null {
  const [next] = Array.isArray(slot["next_token"]) ? slot["next_token"] : [slot["next_token"]];
  const left = isRecord(next) ? next["n_remain"] : null;
  return typeof left === "number" && left >= 0 ? left : null;
}

/**
 * RFC 3339 with up to nanoseconds and the server's own offset, as wall milliseconds. Null for anything else and for
 * Go's zero time. An infinite keep_alive is a date some 292 years ahead.
 */
export function parseTime(text: string): WallMs | null {
  const parts = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)$/i.exec(text);
  if (parts === null) return null;
  const [, seconds = "", fraction = "", zone = ""] = parts;
  const atMs = Date.parse(`${seconds}${fraction.slice(0, 4)}${zone.toUpperCase()}`);
  return Number.isNaN(atMs) || seconds.startsWith("0001-") ? null : atMs;
}

function modelRows(text: string): readonly JsonRecord[] {
  const body = parseRecord(text);
  // Go writes a nil slice as null.
  if (body["models"] === null) return [];
  const models = listField(body, "models");
  if (models === null) throw new MalformedBody("models are missing");
  return models.filter(isRecord);
}

function nameOf(row: JsonRecord): string {
  const name = filledField(row, "name") ?? filledField(row, "model");
  if (name === null) throw new MalformedBody("a model has no name");
  return name;
}

function digestOf(row: JsonRecord): string {
  return (textField(row, "digest") ?? "").replace(/^sha256[:-]/, "");
}

function requiredNumber(row: JsonRecord, key: string): number {
  const value = numberField(row, key);
  if (value === null) throw new MalformedBody(`${nameOf(row)} has no ${key}`);
  return value;
}

function timeField(row: JsonRecord, key: string): WallMs | null {
  const text = textField(row, key);
  return text === null ? null : parseTime(text);
}

function durationField(frame: JsonRecord, key: string): number | null {
  const ns = numberField(frame, key);
  return ns === null ? null : ns / NS_PER_MS;
}
