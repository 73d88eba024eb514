/** One of Ollama's model stores: manifests → weight blobs. */
import { createHash } from "node:crypto";
import { displayName } from "../model/model_names.ts";
import type { CatalogueProblem, FileFacts, Files } from "../model/catalogue.ts";
import { messageOf } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import { MalformedBody } from "../upstream/json_fields.ts";
import { FolderCache } from "./folder_cache.ts";
import { isCloudConfig, type Layer, type Manifest, parseManifest } from "./manifest.ts";

/** Far more than any: a safetensors model has a layer for each of its tensors. */
const MANIFEST_BYTES = 8 * 2 ** 20;
const CONFIG_BYTES = 2 ** 20;

/** A weight file as it was found, before anybody asked whether it may be read. */
export interface FoundFile {
  readonly path: string;
  readonly realPath: string;
  readonly facts: FileFacts;
}

export interface StoreModel {
  readonly name: string;
  readonly digest: string;
  readonly sizeBytes: Bytes;
  /** `sha256-…`: what a runner's `--model` names; none of a safetensors model, whose runner names the model instead. */
  readonly blobs: readonly string[];
  readonly files: readonly FoundFile[];
  readonly problem: string | null;
}

export interface StoreReading {
  readonly models: readonly StoreModel[];
  readonly problems: readonly CatalogueProblem[];
  /** Where its blobs lie; null when there is no such folder. */
  readonly root: string | null;
}

interface KnownManifest {
  readonly facts: FileFacts;
  readonly digest: string;
  /** What is wrong with it stands here instead. */
  readonly manifest: Manifest | string;
}

/** Reads a store again and again; what hasn't changed is not read twice. */
export class OllamaStore {
  readonly path: string;
  readonly #files: Files;
  readonly #folders: FolderCache;
  #manifests = new Map<string, KnownManifest>();
  /** The far end of a link comes and goes without the folder's time telling of it. */
  #linkedBlobs: ReadonlySet<string> = new Set();
  /** Config blobs never change: their name is their hash. */
  readonly #isCloud = new Map<string, boolean>();

  constructor(path: string, { files, clock }: { readonly files: Files; readonly clock: Clock }) {
    this.path = path;
    this.#files = files;
    this.#folders = new FolderCache(files, clock);
  }

  async read(): Promise<StoreReading> {
    this.#folders.begin();
    const blobs = `${this.path}/blobs`;
    // Lists it when something came or went, so that the files below are looked at again.
    const blobNames = await this.#folders.names(blobs);
    if (blobNames === null) return { models: [], problems: [], root: null };
    this.#linkedBlobs = new Set(blobNames.filter(({ kind }) => kind === "link").map(({ name }) => name));
    const models: StoreModel[] = [];
    const problems: CatalogueProblem[] = [];
    const seen = new Map<string, KnownManifest>();
    for await (const { folder, file, name } of this.#manifestFiles(`${this.path}/manifests`)) {
      const path = `${folder}/${file}`;
      const known = await this.#manifest(folder, file);
      if (known === null) continue;
      seen.set(path, known);
      const model = typeof known.manifest === "string"
        ? known.manifest
        : await this.#model({ name, digest: known.digest, manifest: known.manifest });
      if (typeof model === "string") problems.push({ path, problem: model });
      else if (model !== null) models.push(model);
    }
    this.#manifests = seen;
    return { models, problems, root: await this.#files.realPath(blobs) };
  }

  /** `manifests/<host>/<namespace>/<model>/<tag>`: exactly four levels, as Ollama's own walk. */
  async *#manifestFiles(
    top: string,
  ): AsyncGenerator<{ readonly folder: string; readonly file: string; readonly name: string }> {
    for (const host of await this.#subfolders(top)) {
      for (const namespace of await this.#subfolders(`${top}/${host}`)) {
        for (const model of await this.#subfolders(`${top}/${host}/${namespace}`)) {
          const folder = `${top}/${host}/${namespace}/${model}`;
          for (const { name: tag, kind } of await this.#folders.names(folder) ?? []) {
            if (kind === "folder" || tag.startsWith(".")) continue;
            yield { folder, file: tag, name: displayName({ host, namespace, model, tag }) };
          }
        }
      }
    }
  }

  async #subfolders(path: string): Promise<readonly string[]> {
    const names = await this.#folders.names(path) ?? [];
    return names.filter(({ name, kind }) => (kind === "folder" || kind === "link") && !name.startsWith("."))
      .map(({ name }) => name);
  }

  /** A pull writes over a tag's manifest in place, so each is looked at each time; it is read only when it changed. */
  async #manifest(folder: string, file: string): Promise<KnownManifest | null> {
    const path = `${folder}/${file}`;
    const { facts } = await this.#folders.file(folder, file, { isFresh: true });
    if (facts === null || facts.kind !== "file") return null;
    const known = this.#manifests.get(path);
    if (known !== undefined && isUnchanged(known.facts, facts)) return known;
    const text = await this.#files.readText(path, MANIFEST_BYTES);
    if (text === null) return { facts, digest: "", manifest: "Cannot read this manifest" };
    return { facts, digest: sha256(text), manifest: readManifest(text) };
  }

  /** Null for a stub of the cloud, text for what can't be a model. */
  async #model(
    { name, digest, manifest }: { readonly name: string; readonly digest: string; readonly manifest: Manifest },
  ): Promise<StoreModel | string | null> {
    const { config, weights, sizeBytes } = manifest;
    const isCloud = config === null ? false : await this.#readIsCloud(config);
    if (isCloud === true) return null;
    if (weights.length === 0) return `Cannot use the manifest of ${name}: it has no weights`;
    const files: FoundFile[] = [];
    const problems: string[] = isCloud === null ? [`its config ${short(config?.blob ?? "")} is missing`] : [];
    for (const layer of weights) {
      const found = await this.#weight(layer);
      if (typeof found === "string") problems.push(found);
      else files.push(found);
    }
    const blobs = weights.filter(({ isModel }) => isModel).map(({ blob }) => blob);
    const problem = problems.length === 0 ? null : `Cannot load ${name}: ${problems.join("; ")}`;
    return { name, digest, sizeBytes, blobs, files, problem };
  }

  async #weight({ blob, sizeBytes }: Layer): Promise<FoundFile | string> {
    const folder = `${this.path}/blobs`;
    const { facts, realPath } = await this.#folders.file(folder, blob, { isFresh: this.#linkedBlobs.has(blob) });
    if (facts === null || realPath === null) return `its weights ${short(blob)} are missing`;
    if (facts.kind !== "file") return `its weights ${short(blob)} are not a regular file`;
    if (facts.sizeBytes !== sizeBytes) {
      return `its weights ${short(blob)} have ${facts.sizeBytes} bytes, and the manifest says ${sizeBytes}`;
    }
    return { path: `${folder}/${blob}`, realPath, facts };
  }

  /** Null when the config isn't there. */
  async #readIsCloud({ blob }: Layer): Promise<boolean | null> {
    const known = this.#isCloud.get(blob);
    if (known !== undefined) return known;
    const text = await this.#files.readText(`${this.path}/blobs/${blob}`, CONFIG_BYTES);
    if (text === null) return null;
    const isCloud = readOr(() => isCloudConfig(text), false);
    this.#isCloud.set(blob, isCloud);
    return isCloud;
  }
}

function isUnchanged(a: FileFacts, b: FileFacts): boolean {
  return a.id === b.id && a.sizeBytes === b.sizeBytes && a.modifiedAtMs === b.modifiedAtMs;
}

function readManifest(text: string): Manifest | string {
  try {
    return parseManifest(text);
  } catch (error) {
    if (error instanceof MalformedBody) return `Cannot read this manifest: ${messageOf(error)}`;
    throw error;
  }
}

function readOr<T>(read: () => T, otherwise: T): T {
  try {
    return read();
  } catch (error) {
    if (error instanceof MalformedBody) return otherwise;
    throw error;
  }
}

/** A blob's name as people can compare it. */
function short(blob: string): string {
  return `${blob.slice(0, 19)}…`;
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
