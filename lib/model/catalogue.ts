/** Which model files lie on this machine, whose they are, and where the page cache may be asked to read. */
import type { Bytes, MonotonicMs, WallMs } from "./units.ts";

/** A file with weights, once, however many models share it and under however many names it is reached. */
export interface ModelFile {
  /** Its real path, inside one of the catalogue's roots. */
  readonly path: string;
  readonly sizeBytes: Bytes;
  /** Null where the file system doesn't tell. */
  readonly modifiedAtMs: WallMs | null;
  /** Tells it from one that replaced it. */
  readonly id: string;
}

/** A model that a server would offer. */
export interface CatalogueEntry {
  readonly source: "ollama" | "comfyui";
  /** Ollama's shortest display name with tag; ComfyUI's path relative to its folder. */
  readonly name: string;
  /** ComfyUI's folder key; null for Ollama. */
  readonly folder: string | null;
  /** Hex SHA-256 of Ollama's manifest, as `/api/tags` gives it; null for ComfyUI. */
  readonly digest: string | null;
  /** Its weights' real paths, each a ModelFile; empty where there is a problem with all of them. */
  readonly files: readonly string[];
  /** All layers and the config, as Ollama counts a model; for ComfyUI its file. Null where that isn't known. */
  readonly sizeBytes: Bytes | null;
  /** An earlier place has a model of this name, and that is the one its server loads. */
  readonly isShadowed: boolean;
  /** Why it can't be loaded, or not be warmed; null when all is well. */
  readonly problem: string | null;
}

/** Something that was found where models are looked for, and can't be used. */
export interface CatalogueProblem {
  readonly path: string;
  readonly problem: string;
}

/** A place that was looked at, and who named it. */
export interface CataloguePlace {
  readonly source: "ollama" | "comfyui";
  readonly path: string;
  /** "configuration", "the server's environment", … */
  readonly origin: string;
  /** Why nothing could be read there; null when it was read. */
  readonly problem: string | null;
}

export interface Catalogue {
  readonly entries: readonly CatalogueEntry[];
  readonly files: readonly ModelFile[];
  /** Real paths of the folders that files may lie in: whatever resolves elsewhere is refused. */
  readonly roots: readonly string[];
  readonly places: readonly CataloguePlace[];
  readonly problems: readonly CatalogueProblem[];
  /** Manifest digest → weight blobs (`sha256-…`). */
  readonly blobsByDigest: Readonly<Record<string, readonly string[]>>;
  readonly readAtMs: MonotonicMs;
}

/** One name in a folder. */
export interface FolderName {
  readonly name: string;
  /** A link is looked through by `stat`. */
  readonly kind: "file" | "folder" | "link" | "other";
}

export interface FileFacts {
  readonly kind: "file" | "folder" | "other";
  readonly sizeBytes: Bytes;
  readonly modifiedAtMs: WallMs | null;
  /** Tells a file from one that replaced it. */
  readonly id: string;
}

/** What is under a path, where it matters whether that is known. */
export type Presence =
  | { readonly kind: "there"; readonly facts: FileFacts }
  | { readonly kind: "gone" }
  /** The disk fails, it may not be seen …: nothing was learned of the file. */
  | { readonly kind: "unknown"; readonly reason: string };

/**
 * Ordinary files and folders: never /proc, /sys or /dev. Nothing blocks the event loop, since a dead network share would
 * hold it up for ever. Null = there is nothing (any more), or it may not be seen.
 */
export interface Files {
  list(path: string): Promise<readonly FolderName[] | null>;
  stat(path: string): Promise<FileFacts | null>;
  /** As `stat`, for whoever has to tell what is gone from what can't be seen; it never rejects. */
  find(path: string): Promise<Presence>;
  /** All links resolved. */
  realPath(path: string): Promise<string | null>;
  /** Only of regular files, at most `maxBytes`. */
  readText(path: string, maxBytes: number): Promise<string | null>;
  /** Calls under way. */
  readonly busy: number;
}
