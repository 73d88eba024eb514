/** Ollama's manifests and config blobs (facts: upstream-apis A7). Pure: the text is read elsewhere. */
import type { Bytes } from "../model/units.ts";
import {
  filledField,
  isRecord,
  type JsonRecord,
  listField,
  MalformedBody,
  numberField,
  parseRecord,
  recordField,
  textField,
} from "../upstream/json_fields.ts";

export interface Layer {
  /** `sha256-<64 hex>`: the file's name under blobs. */
  readonly blob: string;
  readonly sizeBytes: Bytes;
}

export interface WeightLayer extends Layer {
  /** What a runner's `--model` names. A projector or an adapter may be shared by models that have nothing else in common. */
  readonly isModel: boolean;
}

export interface Manifest {
  /** The config blob; null where the manifest names none. */
  readonly config: Layer | null;
  /** What a load reads: model, projector, adapter, draft and tensor layers. */
  readonly weights: readonly WeightLayer[];
  /** All layers and the config: what `/api/tags` calls the size. */
  readonly sizeBytes: Bytes;
}

const WEIGHTS = new Set(["model", "projector", "adapter", "draft", "tensor"]);
const PREFIX = "application/vnd.ollama.image.";

/** Throws MalformedBody with what is wrong. */
export function parseManifest(text: string): Manifest {
  const body = parseRecord(text);
  const layers = listField(body, "layers");
  if (layers === null) throw new MalformedBody("it has no layers");
  const read = layers.map((entry) => {
    if (!isRecord(entry)) throw new MalformedBody("a layer is not an object");
    const type = textField(entry, "mediaType") ?? "";
    return { type: type.startsWith(PREFIX) ? type.slice(PREFIX.length) : "", layer: layerOf(entry) };
  });
  const found = recordField(body, "config");
  // An empty digest is how a manifest without a config is written.
  const config = found === null || filledField(found, "digest") === null ? null : layerOf(found);
  // Of several models the last one counts.
  const lastModel = read.findLast(({ type }) => type === "model");
  const weights = read.filter((entry) => WEIGHTS.has(entry.type) && (entry.type !== "model" || entry === lastModel));
  return {
    config,
    weights: weights.map(({ type, layer }) => ({ ...layer, isModel: type === "model" })),
    sizeBytes: read.reduce((sum, { layer }) => sum + layer.sizeBytes, config?.sizeBytes ?? 0),
  };
}

/** A digest names a file: nothing but 64 hex digits may get into a path. */
function layerOf(entry: JsonRecord): Layer {
  const hex = /^sha256[:-]([0-9a-f]{64})$/.exec(textField(entry, "digest") ?? "")?.[1];
  if (hex === undefined) throw new MalformedBody("a layer's digest is not a SHA-256");
  const sizeBytes = numberField(entry, "size");
  if (sizeBytes === null || sizeBytes < 0 || !Number.isInteger(sizeBytes)) {
    throw new MalformedBody("a layer has no size");
  }
  return { blob: `sha256-${hex}`, sizeBytes };
}

/** True for the config of a stub whose model runs elsewhere: it has no weights here. */
export function isCloudConfig(text: string): boolean {
  const body = parseRecord(text);
  return filledField(body, "remote_host") !== null || filledField(body, "remote_model") !== null;
}
