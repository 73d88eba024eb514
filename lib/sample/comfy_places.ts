/** Which folders ComfyUI reads: by its own word, else by its command line and the files that this names. */
import type { CataloguePlace, CatalogueProblem } from "../model/catalogue.ts";
import type { MonotonicMs } from "../model/units.ts";
import type { CatalogueHints, CatalogueOptions } from "./catalogue.ts";
import {
  addFolders,
  type ComfyPlaces,
  defaultKinds,
  type ModelKind,
  outputFolders,
  placesOfFolder,
  placesOfServer,
} from "./comfy_layout.ts";
import { readExtraPaths } from "./extra_paths.ts";
import { readEnv, toOurs } from "./store_places.ts";

/** Custom nodes may add folders, at start as a rule: asking once in a while is enough. */
const ASK_MS = 30_000;
const EXTRA_FILE_BYTES = 2 ** 20;

export interface ComfyFolders {
  readonly kinds: readonly ModelKind[];
  readonly places: readonly CataloguePlace[];
  readonly problems: readonly CatalogueProblem[];
}

interface Heard {
  readonly kinds: readonly ModelKind[];
  readonly server: string;
  readonly atMs: MonotonicMs;
}

interface Source {
  readonly kinds: readonly ModelKind[];
  readonly place: CataloguePlace;
}

export class ComfyFolderPlaces {
  readonly #options: CatalogueOptions;
  #heard: Heard | null = null;
  /** What its command line said while it ran: its models stay where they are when it ends. */
  #lastPlaces: ComfyPlaces | null = null;
  #lastEnv: Readonly<Record<string, string>> | null = null;

  constructor(options: CatalogueOptions) {
    this.#options = options;
  }

  async find(hints: CatalogueHints, signal: AbortSignal): Promise<ComfyFolders> {
    const problems: CatalogueProblem[] = [];
    const sources = [
      ...await this.#fromServer(hints, { signal, problems }),
      ...await this.#fromSettings(problems),
    ];
    let kinds: readonly ModelKind[] = [];
    for (const source of sources) {
      kinds = addFolders(
        kinds,
        source.kinds.flatMap(({ kind, folders }) => folders.map((path) => ({ kind, path, isFirst: false }))),
      );
    }
    return { kinds, places: sources.map(({ place }) => place), problems };
  }

  async #fromServer(
    hints: CatalogueHints,
    { signal, problems }: { readonly signal: AbortSignal; readonly problems: CatalogueProblem[] },
  ): Promise<readonly Source[]> {
    const { proc } = this.#options;
    const { comfyServer } = hints;
    const entry = comfyServer === null ? null : proc.process(comfyServer.pid);
    const places = entry === null ? null : placesOfServer(entry);
    if (entry !== null && places !== null) {
      this.#lastPlaces = mapPlaces(places, (path) => toOurs(proc, entry.pid, path));
      this.#lastEnv = readEnv(proc, entry.pid);
    }
    await this.#ask(hints, signal);
    if (this.#heard !== null) {
      const path = this.#lastPlaces?.baseDir ?? this.#heard.kinds[0]?.folders[0] ?? "";
      const place = { source: "comfyui" as const, path, origin: "ComfyUI's own word", problem: null };
      return [{ kinds: this.#heard.kinds, place }];
    }
    if (this.#lastPlaces === null) return [];
    return [await this.#fromPlaces(this.#lastPlaces, { origin: "ComfyUI's command line", problems })];
  }

  /** What it said stays good while it is away. */
  async #ask({ comfyServer, isComfyOnline }: CatalogueHints, signal: AbortSignal): Promise<void> {
    const { clock, proc, askFolders } = this.#options;
    if (!isComfyOnline || comfyServer === null) return;
    const server = `${comfyServer.pid} ${comfyServer.startTime}`;
    const nowMs = clock.monotonicMs();
    if (this.#heard !== null && this.#heard.server === server && nowMs - this.#heard.atMs < ASK_MS) return;
    const kinds = await askFolders(signal);
    if (kinds.length === 0) return;
    const ours = kinds.map(({ kind, folders }) => ({
      kind,
      folders: folders.flatMap((path) => toOurs(proc, comfyServer.pid, path) ?? []),
    }));
    this.#heard = { kinds: ours, server, atMs: nowMs };
  }

  async #fromSettings(problems: CatalogueProblem[]): Promise<readonly Source[]> {
    const { comfyFolders, comfyExtraFiles } = this.#options.settings;
    const sources: Source[] = [];
    for (const folder of comfyFolders) {
      sources.push(await this.#fromPlaces(placesOfFolder(folder), { origin: "configuration", problems }));
    }
    for (const path of comfyExtraFiles) {
      const kinds = await this.#addFile([], path, problems);
      const problem = kinds.length === 0 ? "no folder could be read from it" : null;
      sources.push({ kinds, place: { source: "comfyui", path, origin: "configuration", problem } });
    }
    return sources;
  }

  async #fromPlaces(
    places: ComfyPlaces,
    { origin, problems }: { readonly origin: string; readonly problems: CatalogueProblem[] },
  ): Promise<Source> {
    let kinds = defaultKinds(places.modelsDir);
    for (const path of places.extraFiles) kinds = await this.#addFile(kinds, path, problems);
    kinds = addFolders(kinds, outputFolders(places.outputDir));
    const isThere = (await this.#options.files.stat(places.modelsDir))?.kind === "folder";
    const problem = isThere ? null : `there is no ${places.modelsDir}`;
    return { kinds, place: { source: "comfyui", path: places.baseDir, origin, problem } };
  }

  /** A file that isn't there adds nothing: the one beside main.py is optional. */
  async #addFile(
    kinds: readonly ModelKind[],
    path: string,
    problems: CatalogueProblem[],
  ): Promise<readonly ModelKind[]> {
    const text = await this.#options.files.readText(path, EXTRA_FILE_BYTES);
    if (text === null) return kinds;
    const folder = path.replace(/\/[^/]*$/, "") || "/";
    const extra = readExtraPaths(text, { folder, env: this.#lastEnv });
    for (const problem of extra.problems) problems.push({ path, problem: `Cannot read all of ${path}: ${problem}` });
    return addFolders(kinds, extra.folders);
  }
}

function mapPlaces(places: ComfyPlaces, map: (path: string) => string | null): ComfyPlaces {
  return {
    baseDir: map(places.baseDir) ?? places.baseDir,
    modelsDir: map(places.modelsDir) ?? places.modelsDir,
    outputDir: map(places.outputDir) ?? places.outputDir,
    extraFiles: places.extraFiles.flatMap((path) => map(path) ?? []),
  };
}
