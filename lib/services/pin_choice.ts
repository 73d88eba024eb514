/** From what a caller named to a pin's files and the name that it is kept under. */
import { useKey } from "../decide/model_uses.ts";
import { labelOf } from "../decide/warm_plan.ts";
import type { FileChoice, PinResult } from "../model/cache.ts";
import type { Catalogue, Files, ModelFile } from "../model/catalogue.ts";
import { Failure } from "../model/failure.ts";
import { chooseFiles } from "./file_choice.ts";
import type { PinBoard } from "./pin_board.ts";

export interface ChoiceParts {
  readonly catalogue: Catalogue;
  readonly files: Files;
}

export interface PinChoice {
  readonly name: string;
  readonly files: readonly ModelFile[];
}

/** Throws what `chooseFiles` throws. A path that is all of one model stands for it. */
export async function choosePins(request: FileChoice, parts: ChoiceParts): Promise<PinChoice> {
  const { files, entry } = await chooseFiles(request, parts);
  const isModel = entry !== null && (request.model !== null || entry.files.length === 1);
  return { name: isModel ? labelOf(entry) : files[0]?.path ?? "", files };
}

/** What is pinned may have left the catalogue meanwhile: it is let go by the name or the path that it was pinned under. */
export async function unpinChosen(request: FileChoice, parts: ChoiceParts, pins: PinBoard): Promise<PinResult> {
  const { model, path } = request;
  if (model === null && path !== null && pins.holds(path)) return await pins.unpinFile(path);
  try {
    const { files, entry } = await chooseFiles(request, parts);
    if (model !== null && entry !== null) return await pins.unpin({ name: labelOf(entry), files });
    const [file] = files;
    return await pins.unpinFile(file === undefined ? "" : pins.pathOf(file) ?? file.path);
  } catch (error) {
    const isMissing = error instanceof Failure && error.code === "not_found" && model !== null;
    const key = (name: string) => useKey("ollama", name);
    const name = isMissing ? pins.names.find((pinned) => key(pinned) === key(model)) : undefined;
    if (name === undefined) throw error;
    return await pins.unpin({ name, files: [] });
  }
}
