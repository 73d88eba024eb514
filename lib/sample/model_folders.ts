/** ComfyUI's model folders: every name that it offers, and the file behind each. */
import type { CatalogueProblem, Files } from "../model/catalogue.ts";
import type { Clock } from "../model/ports.ts";
import { holdsModels, type ModelKind, offersFile } from "./comfy_layout.ts";
import { FolderCache } from "./folder_cache.ts";
import type { FoundFile } from "./ollama_store.ts";
import { refuseRoot } from "./paths.ts";

/** Deeper than anybody sorts models; a link that leads in a circle ends here at the latest. */
const MAX_DEPTH = 16;
/** A folder with more than that was named by mistake. */
const MAX_NAMES = 20_000;

export interface FolderModel {
  readonly kind: string;
  /** Relative to its folder. */
  readonly name: string;
  readonly file: FoundFile | null;
  readonly problem: string | null;
}

export interface FoldersReading {
  readonly models: readonly FolderModel[];
  /** Real paths of the folders that were there. */
  readonly roots: readonly string[];
  readonly problems: readonly CatalogueProblem[];
}

interface Found {
  readonly folder: string;
  readonly file: string;
  readonly name: string;
}

/** Reads folders again and again; what hasn't changed is not listed twice. */
export class ModelFolders {
  readonly #files: Files;
  readonly #cache: FolderCache;

  constructor({ files, clock }: { readonly files: Files; readonly clock: Clock }) {
    this.#files = files;
    this.#cache = new FolderCache(files, clock);
  }

  async read(kinds: readonly ModelKind[]): Promise<FoldersReading> {
    this.#cache.begin();
    const roots = new Set<string>();
    const problems = new Map<string, string>();
    const models: FolderModel[] = [];
    for (const { kind, folders } of kinds) {
      if (!holdsModels(kind)) continue;
      const names = new Map<string, Found>();
      for (const folder of folders) {
        const realPath = await this.#files.realPath(folder);
        if (realPath === null) continue;
        const refused = refuseRoot(realPath);
        if (refused !== null) {
          problems.set(folder, `Cannot take ${folder} for a model folder: ${refused}`);
          continue;
        }
        roots.add(realPath);
        const room = MAX_NAMES - names.size;
        const unlisted = (path: string) =>
          problems.set(path, `Cannot list ${path}: it is no folder, not ours to see, or its disk fails`);
        const found = await this.#walk(kind, { folder, realPath, room, unlisted });
        if (found.length >= room) {
          problems.set(folder, `${folder} has more than ${MAX_NAMES} files: the rest is left out`);
        }
        for (const entry of found) if (!names.has(entry.name)) names.set(entry.name, entry);
      }
      for (const found of names.values()) models.push(await this.#model(kind, found));
    }
    return {
      models,
      roots: [...roots],
      problems: [...problems].map(([path, problem]) => ({ path, problem })),
    };
  }

  /** Every offered name below a folder; links are followed, save in a circle, and `.git` is left out. */
  async #walk(
    kind: string,
    top: {
      readonly folder: string;
      readonly realPath: string;
      readonly room: number;
      /** Called with a folder whose names can't be had. */
      readonly unlisted: (path: string) => void;
    },
  ): Promise<readonly Found[]> {
    const found: Found[] = [];
    const visit = async (folder: string, prefix: string, above: readonly string[]): Promise<void> => {
      const names = await this.#cache.names(folder);
      if (names === null) return top.unlisted(folder);
      for (const { name, kind: what } of names) {
        if (found.length >= top.room) return;
        const path = `${folder}/${name}`;
        const isFolder = what === "folder" || what === "link" && await this.#isFolder(folder, name);
        if (!isFolder) {
          if (offersFile(kind, name)) found.push({ folder, file: name, name: prefix + name });
          continue;
        }
        if (name === ".git" || above.length >= MAX_DEPTH) continue;
        const realPath = what === "folder" ? `${above.at(-1)}/${name}` : await this.#files.realPath(path);
        if (realPath === null || above.includes(realPath) || refuseRoot(realPath) !== null) continue;
        await visit(path, `${prefix}${name}/`, [...above, realPath]);
      }
    };
    await visit(top.folder, "", [top.realPath]);
    return found;
  }

  /** No folder's time tells that the far end of a link came or went: it is looked at each time. */
  async #isFolder(folder: string, name: string): Promise<boolean> {
    return (await this.#cache.file(folder, name, { isFresh: true })).facts?.kind === "folder";
  }

  async #model(kind: string, { folder, file, name }: Found): Promise<FolderModel> {
    const path = `${folder}/${file}`;
    const { facts, realPath } = await this.#cache.file(folder, file);
    if (facts === null || realPath === null) {
      return {
        kind,
        name,
        file: null,
        problem: `Cannot read ${path}: it is a link to nothing, not ours to see, or its disk fails`,
      };
    }
    if (facts.kind !== "file") return { kind, name, file: null, problem: `Cannot use ${path}: not a regular file` };
    return { kind, name, file: { path, realPath, facts }, problem: null };
  }
}
