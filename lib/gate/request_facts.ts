/** What the body of a held request says that the arbiter wants to know. */
import type { AdmissionRequest } from "../model/admission.ts";
import type { Tenant } from "../model/tenants.ts";
import { weightFilesOf } from "../upstream/comfy_parse.ts";
import { isRecord, numberField } from "../upstream/json_fields.ts";
import { type ObjectFields, objectFields, parseValue } from "./object_fields.ts";

export interface RequestFacts extends Pick<AdmissionRequest, "model" | "contextLength" | "files"> {
  /** False: it is an unload, a model that runs elsewhere, or what its upstream will refuse; it need not be offered. */
  readonly takesMemory: boolean;
  /** The client reads the answer as server-sent events. */
  readonly isEventStream: boolean;
  /** Why it would end the upstream's process; null when it wouldn't. */
  readonly kills: string | null;
}

const decoder = new TextDecoder();

const UNKNOWN: RequestFacts = {
  model: null,
  contextLength: null,
  files: [],
  takesMemory: true,
  isEventStream: false,
  kills: null,
};

/** `body`: its content, or as much of it as is at hand; null where it can't be read here. */
export function requestFacts(
  body: Uint8Array | null,
  { tenant, path }: { readonly tenant: Tenant; readonly path: string },
): RequestFacts {
  if (body === null) return UNKNOWN;
  const fields = objectFields(body);
  // No JSON, or none that is an object: both upstreams refuse that at once (measured), and load nothing for it.
  if (fields === null) return { ...UNKNOWN, takesMemory: false };
  return tenant === "comfyui" ? promptFacts(fields) : modelFacts(ignoringCase(fields), path);
}

function promptFacts(fields: ObjectFields): RequestFacts {
  const graph = fields.get("prompt");
  return { ...UNKNOWN, files: graph === undefined ? [] : weightFilesOf(parseValue(graph)), kills: killOf(fields) };
}

/**
 * ComfyUI looks its clients up by `client_id`: one that Python can't hash ends the whole server (4 of 4 measured). Sent
 * inside `extra_data` it comes to the same.
 */
function killOf(fields: ObjectFields): string | null {
  const extra = fields.get("extra_data");
  const inside = extra === undefined ? null : objectFields(extra);
  for (const id of [fields.get("client_id"), inside?.get("client_id")]) {
    const kind = id?.[0] === 0x7b ? "an object" : id?.[0] === 0x5b ? "a list" : null;
    if (kind !== null) return `client_id is ${kind}: it has to be a string`;
  }
  return null;
}

/** Go reads names in whatever case they come. */
function ignoringCase(fields: ObjectFields): ObjectFields {
  return new Map([...fields].map(([name, value]) => [name.toLowerCase(), value]));
}

function modelFacts(fields: ObjectFields, path: string): RequestFacts {
  const read = (name: string): unknown => {
    const text = fields.get(name);
    return text === undefined ? undefined : parseValue(text);
  };
  const model = read("model");
  const options = read("options");
  const isOpenAi = path.startsWith("/v1/");
  return {
    ...UNKNOWN,
    model: typeof model === "string" ? model : null,
    contextLength: isRecord(options) ? numberField(options, "num_ctx") : null,
    takesMemory: !isUnload(fields, path) && !(typeof model === "string" && /(?:^|[:-])cloud$/i.test(model)),
    isEventStream: isOpenAi && read("stream") === true,
  };
}

const ZERO = /^(?:0+(?:\.0+)?|"[+-]?0+(?:\.0+)?(?:ns|us|µs|ms|s|m|h)?")$/;
const NOTHING = /^(?:""|null|\[\s*\])$/;

/** `keep_alive: 0` with nothing to answer. Embedding routes have no such thing: they load first. */
function isUnload(fields: ObjectFields, path: string): boolean {
  const asked = path === "/api/generate" ? "prompt" : path === "/api/chat" ? "messages" : null;
  if (asked === null || !textMatches(fields.get("keep_alive"), ZERO)) return false;
  return fields.get(asked) === undefined || textMatches(fields.get(asked), NOTHING);
}

function textMatches(text: Uint8Array | undefined, pattern: RegExp): boolean {
  return text !== undefined && text.length < 64 && pattern.test(decoder.decode(text));
}
