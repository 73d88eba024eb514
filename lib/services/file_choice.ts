/** From what a caller named to the files that are meant; everything else is refused in words. */
import { labelOf } from "../decide/warm_plan.ts";
import { useKey } from "../decide/model_uses.ts";
import type { FileChoice } from "../model/cache.ts";
import type { Catalogue, CatalogueEntry, Files, ModelFile } from "../model/catalogue.ts";
import { didYouMean } from "../model/did_you_mean.ts";
import { Failure } from "../model/failure.ts";

/** Of several models that may be meant, so many are told. */
const NAMED_RIVALS = 5;

export interface Chosen {
  readonly files: readonly ModelFile[];
  /** The model whose files they are; null for a path that several or none stand for. */
  readonly entry: CatalogueEntry | null;
}

/** Throws Failure: invalid_input, forbidden (outside of the model folders) or not_found. */
export async function chooseFiles(
  { model, path }: FileChoice,
  { catalogue, files }: { readonly catalogue: Catalogue; readonly files: Files },
): Promise<Chosen> {
  if ((model === null) === (path === null)) {
    throw new Failure("invalid_input", "Give either model_name or filepath", {
      hint: "`hyperswap models` lists both",
    });
  }
  return model !== null ? chooseModel(model, catalogue) : await choosePath(path ?? "", { catalogue, files });
}

function chooseModel(name: string, catalogue: Catalogue): Chosen {
  const usable = catalogue.entries.filter(({ isShadowed }) => !isShadowed);
  const entry = entryNamed(name, usable);
  if (entry === null) throw unknown(name, usable);
  const byPath = new Map(catalogue.files.map((file) => [file.path, file]));
  const files = entry.files.flatMap((path) => byPath.get(path) ?? []);
  if (files.length > 0) return { files, entry };
  throw new Failure("not_found", `Cannot read the weights of '${labelOf(entry)}': ${entry.problem ?? "it has none"}`, {
    hint: "`hyperswap cache` lists every problem that was found",
  });
}

/** ComfyUI's files go by their folder and name, by their name alone, or by its last part: the fullest that fits. */
function entryNamed(name: string, entries: readonly CatalogueEntry[]): CatalogueEntry | null {
  const waysToName = [
    (entry: CatalogueEntry) =>
      entry.source === "ollama" ? useKey("ollama", entry.name) === useKey("ollama", name) : labelOf(entry) === name,
    (entry: CatalogueEntry) => entry.source === "comfyui" && entry.name === name,
    (entry: CatalogueEntry) => entry.source === "comfyui" && entry.name.replace(/^.*\//, "") === name,
  ];
  for (const isNamed of waysToName) {
    const [entry, ...others] = entries.filter(isNamed);
    if (entry === undefined) continue;
    const files = JSON.stringify(entry.files);
    const rivals = others.filter((other) => JSON.stringify(other.files) !== files);
    if (rivals.length === 0) return entry;
    const labels = [entry, ...rivals].map((rival) => `'${labelOf(rival)}'`);
    throw new Failure("invalid_input", `There are ${labels.length} models '${name}'`, {
      hint: `Say which: ${labels.slice(0, NAMED_RIVALS).join(", ")}${labels.length > NAMED_RIVALS ? ", …" : ""}`,
    });
  }
  return null;
}

function unknown(name: string, entries: readonly CatalogueEntry[]): Failure {
  const labels = entries.map(labelOf);
  const bare = (label: string) => label.replace(/:latest$/, "").replace(/^.*\//, "");
  const close = didYouMean(bare(name), labels.map(bare));
  const meant = labels.find((label) => bare(label) === close) ?? null;
  return new Failure("not_found", `There is no model '${name}' in the catalogue`, {
    hint: meant === null ? "`hyperswap models` lists what is there" : `Did you mean '${meant}'?`,
  });
}

async function choosePath(
  path: string,
  { catalogue, files }: { readonly catalogue: Catalogue; readonly files: Files },
): Promise<Chosen> {
  if (!path.startsWith("/") || path.includes("\0") || path.split("/").includes("..")) {
    throw new Failure("invalid_input", `Cannot take ${JSON.stringify(path)} for a model file: give its absolute path`, {
      hint: "Without `..`; `hyperswap cache` lists every path",
    });
  }
  // What lies outside is refused by its name, before anybody asks the disk about it: its existence is nobody's business.
  const isNear = (place: string) => catalogue.roots.some((root) => place === root || place.startsWith(`${root}/`));
  const realPath = await files.realPath(path);
  const file = realPath === null ? undefined : catalogue.files.find((known) => known.path === realPath);
  if (file === undefined) {
    if (realPath !== null && isNear(realPath)) {
      throw new Failure("not_found", `${path} is no model file of the catalogue`, {
        hint: "A new file shows within 10 s; partial downloads and other files are never read",
      });
    }
    if (realPath === null && isNear(path)) throw new Failure("not_found", `There is no ${path}`);
    throw new Failure("forbidden", `Cannot read ${path}: it lies outside of every model folder`, {
      hint: "Only files of the catalogue are read; warm.roots in the configuration names further folders",
    });
  }
  const entries = catalogue.entries.filter((entry) => entry.files.includes(file.path));
  return { files: [file], entry: entries.length === 1 ? entries[0] ?? null : null };
}
