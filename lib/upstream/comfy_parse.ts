import type { ComfyCompletion, ComfyQueue } from "../model/ports.ts";
import type { Bytes, WallMs } from "../model/units.ts";
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
  strings,
  textField,
} from "./json_fields.ts";

/** Reads what ComfyUI answers and broadcasts. Every parser takes text and throws MalformedBody. */

/** `/queue`: prompt ids, pending ones in the order they will run (the server sends a heap, not a sorted list). */
export function parseQueue(text: string): ComfyQueue {
  const body = parseRecord(text);
  const running = listField(body, "queue_running");
  const pending = listField(body, "queue_pending");
  if (running === null || pending === null) throw new MalformedBody("queue_running or queue_pending is missing");
  const ids = (entries: readonly unknown[]) => entries.map(queueEntry).toSorted(byTurn).map(({ id }) => id);
  return { running: ids(running), pending: ids(pending) };
}

interface QueueEntry {
  readonly number: number;
  readonly id: string;
}

/** [number, prompt_id, graph, extra_data, outputs]; any string is accepted as an id. */
function queueEntry(entry: unknown): QueueEntry {
  if (!Array.isArray(entry)) throw new MalformedBody("a queue entry is not a list");
  const [number, id]: readonly unknown[] = entry;
  if (typeof number !== "number" || typeof id !== "string") {
    throw new MalformedBody("a queue entry has no number or id");
  }
  return { number, id };
}

function byTurn(a: QueueEntry, b: QueueEntry): number {
  return a.number - b.number || (a.id < b.id ? -1 : 1);
}

/** A finished prompt, with what tells two runs of one id apart. */
export interface HistoryEntry extends ComfyCompletion {
  /** Its place in the server's count of prompts; null when absent. */
  readonly number: number | null;
}

const WEIGHT_FILE = /^[^\n]{1,300}\.(?:ckpt|pt2?|bin|pth|safetensors|pkl|sft)$/i;

/** `/history` and `/history/{id}`: finished prompts, oldest first. An unknown or unfinished id gives none. */
export function parseHistory(text: string): readonly HistoryEntry[] {
  return Object.entries(parseRecord(text)).flatMap(([promptId, entry]) =>
    isRecord(entry) ? [historyEntry(promptId, entry)] : []
  );
}

function historyEntry(promptId: string, entry: JsonRecord): HistoryEntry {
  const status = recordField(entry, "status") ?? {};
  const messages = (listField(status, "messages") ?? []).flatMap(historyMessage);
  const find = (...events: string[]) => messages.findLast(({ event }) => events.includes(event)) ?? null;
  const error = find("execution_error");
  const isInterrupted = find("execution_interrupted") !== null;
  // An interrupted prompt is listed as an error. A server too old for `status` keeps only what it finished.
  const isError = textField(status, "status_str") === "error";
  const number: unknown = listField(entry, "prompt")?.[0];
  return {
    promptId,
    number: typeof number === "number" ? number : null,
    status: isInterrupted ? "interrupted" : isError ? "error" : "success",
    startedAtMs: find("execution_start")?.atMs ?? null,
    endedAtMs: find("execution_success", "execution_error", "execution_interrupted")?.atMs ?? null,
    error: isError && error !== null ? exceptionText(error.data) : null,
    ...workOf(recordsOf(listField(entry, "prompt")?.[2])),
    ...filesOf(listField(entry, "prompt")?.[2]),
    ...cachedOf(listField(entry, "prompt")?.[2], find("execution_cached")),
    ...imageOf(recordField(entry, "outputs")),
  };
}

/** Which of the nodes that matter were not executed. */
function cachedOf(graph: unknown, message: HistoryMessage | null): Pick<ComfyCompletion, "cached"> {
  if (!isRecord(graph) || message === null) return {};
  const cached = new Set(strings(listField(message.data, "nodes") ?? []));
  const isCached = (isMeant: (input: JsonRecord) => boolean) =>
    Object.entries(graph).some(([id, node]) =>
      cached.has(id) && isRecord(node) && isMeant(recordField(node, "inputs") ?? {})
    );
  return {
    cached: {
      sampler: isCached((input) => numberField(input, "steps") !== null),
      model: isCached((input) => "ckpt_name" in input || "unet_name" in input),
    },
  };
}

function imageOf(outputs: JsonRecord | null): Pick<ComfyCompletion, "image"> {
  for (const output of recordsOf(outputs)) {
    const image = (listField(output, "images") ?? []).find(isRecord);
    const filename = image === undefined ? null : filledField(image, "filename");
    if (image === undefined || filename === null) continue;
    const subfolder = textField(image, "subfolder") ?? "";
    return { image: { filename, subfolder, type: textField(image, "type") ?? "output" } };
  }
  return {};
}

function filesOf(graph: unknown): Pick<ComfyCompletion, "files"> {
  const files = weightFilesOf(graph);
  return files.length === 0 ? {} : { files };
}

/** Every value of a graph's nodes that is spelled like a file of weights, whatever node it is. */
export function weightFilesOf(graph: unknown): readonly string[] {
  const values = recordsOf(graph).flatMap((node) => strings(Object.values(recordField(node, "inputs") ?? {})));
  return [...new Set(values.filter((value) => WEIGHT_FILE.test(value)))];
}

/** What a graph samples, where it says so plainly: one model and one size. Anything else isn't comparable. */
function workOf(nodes: readonly JsonRecord[]): Pick<ComfyCompletion, "work"> {
  const inputs = nodes.map((node) => recordField(node, "inputs") ?? {});
  const models = new Set(
    inputs.flatMap((input) => filledField(input, "ckpt_name") ?? filledField(input, "unet_name") ?? []),
  );
  const sizes = new Set(nodes.flatMap((node) => {
    const input = recordField(node, "inputs");
    if (input === null || !/^Empty.*Latent/.test(textField(node, "class_type") ?? "")) return [];
    const [width, height] = [numberField(input, "width"), numberField(input, "height")];
    const batch = numberField(input, "batch_size") ?? 1;
    return width === null || height === null ? [] : [`${width}x${height}${batch === 1 ? "" : ` x${batch}`}`];
  }));
  const [model, size] = [[...models][0], [...sizes][0]];
  const counts = inputs.flatMap((input) => numberField(input, "steps") ?? []);
  const steps = counts.length === 1 && counts[0] !== undefined ? { steps: counts[0] } : {};
  return models.size === 1 && sizes.size === 1 && model !== undefined && size !== undefined
    ? { work: { model, size, ...steps } }
    : {};
}

function recordsOf(graph: unknown): readonly JsonRecord[] {
  return isRecord(graph) ? Object.values(graph).filter(isRecord) : [];
}

interface HistoryMessage {
  readonly event: string;
  readonly data: JsonRecord;
  readonly atMs: WallMs | null;
}

function historyMessage(message: unknown): readonly HistoryMessage[] {
  if (!Array.isArray(message)) return [];
  const [event, data]: readonly unknown[] = message;
  if (typeof event !== "string" || !isRecord(data)) return [];
  return [{ event, data, atMs: numberField(data, "timestamp") }];
}

function exceptionText(data: JsonRecord): string {
  const parts = [filledField(data, "exception_type"), filledField(data, "exception_message")?.trim()];
  return parts.filter((part) => part).join(": ") || "no reason given";
}

export interface ComfyStats {
  readonly version: string | null;
  /** Of the first device: free by the driver plus what torch keeps in reserve. Null on a CPU. */
  readonly vramFreeBytes: Bytes | null;
  /** The server's own command line, from `main.py` on. */
  readonly argv: readonly string[];
}

/** `/system_stats`. */
export function parseStats(text: string): ComfyStats {
  const body = parseRecord(text);
  const system = recordField(body, "system");
  if (system === null) throw new MalformedBody("system is missing");
  const device = (listField(body, "devices") ?? []).find(isRecord) ?? {};
  const isCpu = textField(device, "type") === "cpu";
  return {
    version: filledField(system, "comfyui_version"),
    vramFreeBytes: isCpu ? null : numberField(device, "vram_free"),
    argv: strings(listField(system, "argv") ?? []),
  };
}

/** `/models/{folder}`: file names. */
export function parseModelNames(text: string): readonly string[] {
  const body = parseJson(text);
  if (!Array.isArray(body)) throw new MalformedBody("body is not a list");
  return strings(body);
}

/** A kind of model and the folders that ComfyUI reads for it, the first of which wins. */
export interface ModelFoldersAnswer {
  readonly kind: string;
  readonly folders: readonly string[];
}

/** `/experiment/models`: every kind with its folders, as absolute paths of the server's. */
export function parseModelFolders(text: string): readonly ModelFoldersAnswer[] {
  const body = parseJson(text);
  if (!Array.isArray(body)) throw new MalformedBody("body is not a list");
  return body.flatMap((entry: unknown) => {
    const kind = isRecord(entry) ? filledField(entry, "name") : null;
    const folders = isRecord(entry) ? listField(entry, "folders") : null;
    return kind === null || folders === null ? [] : [{ kind, folders: strings(folders) }];
  });
}

/** A WebSocket frame, as far as an observer can use it. */
export type ComfyFrame =
  /** Broadcast to everyone; `sid` is set only in a connection's first. */
  | { readonly kind: "status"; readonly queueRemaining: number; readonly sid: string | null }
  /** Seen by an observer only for prompts that were posted without a client_id. */
  | { readonly kind: "progress"; readonly promptId: string; readonly value: number; readonly max: number }
  | { readonly kind: "other"; readonly type: string };

/** Null for text that isn't a frame: it is ignored, as are frames of unknown type. */
export function parseComfyFrame(text: string): ComfyFrame | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    // Custom nodes send what they like.
    return null;
  }
  if (!isRecord(value)) return null;
  const type = textField(value, "type");
  const data = recordField(value, "data") ?? {};
  if (type === null) return null;
  const frame = type === "status" ? statusFrame(data) : isProgress(type) ? progressFrame(data) : null;
  return frame ?? { kind: "other", type };
}

function isProgress(type: string): boolean {
  return type === "progress" || type === "progress_state";
}

function statusFrame(data: JsonRecord): ComfyFrame | null {
  const info = recordField(recordField(data, "status") ?? {}, "exec_info") ?? {};
  const queueRemaining = numberField(info, "queue_remaining");
  return queueRemaining === null ? null : { kind: "status", queueRemaining, sid: textField(data, "sid") };
}

/** `progress` has the figures itself, `progress_state` those of every node begun so far: the running one's count. */
function progressFrame(data: JsonRecord): ComfyFrame | null {
  const nodes = Object.values(recordField(data, "nodes") ?? {}).filter(isRecord);
  const source = nodes.findLast((node) => node["state"] === "running") ?? nodes.at(-1) ?? data;
  const promptId = textField(data, "prompt_id");
  const value = numberField(source, "value");
  const max = numberField(source, "max");
  return promptId === null || value === null || max === null ? null : { kind: "progress", promptId, value, max };
}
