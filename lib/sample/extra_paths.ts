/**
 * ComfyUI's extra_model_paths.yaml, by the rules of its own reader. Of YAML it takes what such files are written in:
 * sections of plain or quoted values and block texts. Whatever else it meets is reported, not guessed.
 */
import { joinPath, normalizePath } from "./paths.ts";

/** One folder more for a kind of model. */
export interface ExtraFolder {
  readonly kind: string;
  readonly path: string;
  /** Goes before the folders that are there already. */
  readonly isFirst: boolean;
}

export interface ExtraPaths {
  readonly folders: readonly ExtraFolder[];
  /** Each with its line: what was left out, and why. */
  readonly problems: readonly string[];
}

export interface ExtraPathsContext {
  /** Where the file lies: relative paths start there. */
  readonly folder: string;
  /** The server's environment, for `~` and `$NAME`; null where it can't be read. */
  readonly env: Readonly<Record<string, string>> | null;
}

/** Keys of old that mean another. */
const LEGACY: Readonly<Record<string, string>> = { unet: "diffusion_models", clip: "text_encoders" };

/** The name under which ComfyUI keeps a kind. */
export function kindOf(key: string): string {
  return LEGACY[key] ?? key;
}

export function readExtraPaths(text: string, context: ExtraPathsContext): ExtraPaths {
  const problems: string[] = [];
  const sections = parseSections(text, problems);
  const folders = sections.flatMap((section) => foldersOf(section, context, problems));
  return { folders, problems };
}

interface Value {
  readonly text: string;
  /** Written in quotes or as a block: text, whatever it looks like. */
  readonly isQuoted: boolean;
  readonly line: number;
}

interface Section {
  readonly name: string;
  readonly values: ReadonlyMap<string, Value>;
}

function foldersOf(section: Section, context: ExtraPathsContext, problems: string[]): readonly ExtraFolder[] {
  const base = section.values.get("base_path");
  let start = context.folder;
  if (base !== undefined) {
    const expanded = expand(base.text, context.env);
    if (expanded === null) {
      problems.push(
        `line ${base.line}: the base_path of ${section.name} needs the server's environment, which isn't known`,
      );
      return [];
    }
    start = normalizePath(joinPath(context.folder, expanded));
  }
  const isFirst = isTrue(section.values.get("is_default"));
  return [...section.values].flatMap(([key, value]) => {
    if (key === "base_path" || key === "is_default") return [];
    if (!value.isQuoted && !isText(value.text)) {
      problems.push(`line ${value.line}: ${key} is no text; ComfyUI doesn't start with it`);
      return [];
    }
    return value.text.split("\n").filter((path) => path !== "")
      .map((path) => ({ kind: kindOf(key), path: normalizePath(joinPath(start, path)), isFirst }));
  });
}

/** Null when it names what isn't known. A name that isn't set stays as it is written, as in Python. */
function expand(path: string, env: ExtraPathsContext["env"]): string | null {
  const isHome = path === "~" || path.startsWith("~/");
  if (!isHome && !path.includes("$")) return path;
  const home = env?.["HOME"];
  if (env === null || isHome && home === undefined) return null;
  const atHome = isHome ? `${home}${path.slice(1)}` : path;
  return atHome.replaceAll(
    /[$](?:(\w+)|[{]([^}]*)[}])/g,
    (whole, bare?: string, braced?: string) => env[bare ?? braced ?? ""] ?? whole,
  );
}

/** What YAML 1.1 reads as something other than text. */
function isText(text: string): boolean {
  return !/^(?:~|null|true|false|yes|no|on|off|[-+]?[0-9][0-9_.eE+-]*)?$/i.test(text);
}

function isTrue(value: Value | undefined): boolean {
  if (value === undefined) return false;
  // To Python any text but an empty one is true, even "false".
  if (value.isQuoted) return value.text !== "";
  return !/^(?:~|null|false|no|off|0)?$/i.test(value.text);
}

const KEY = /^( *)(?:"([^"]*)"|'([^']*)'|([^\s"'#&*!|>%@`[{,\]}?:-][^:#]*?|[^\s"'#&*!|>%@`[{,\]}?:-])) *:(?: +(.*))?$/;

/** Two levels of mappings. A line that is neither a comment nor a key it knows how to read goes to `problems`. */
function parseSections(text: string, problems: string[]): readonly Section[] {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const sections: { name: string; values: Map<string, Value>; indent: number | null }[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] ?? "";
    const number = ++at;
    if (/^\s*(?:#.*)?$/.test(line) || line === "---") continue;
    const found = KEY.exec(line);
    if (found === null || line.includes("\t")) {
      problems.push(`line ${number}: not understood: ${line.trim().slice(0, 60)}`);
      continue;
    }
    const indent = found[1]?.length ?? 0;
    const key = found[2] ?? found[3] ?? found[4]?.trim() ?? "";
    const rest = (found[5] ?? "").trim();
    if (indent === 0) {
      sections.push({ name: key, values: new Map(), indent: null });
      const scalar = plainOf(rest);
      if (scalar !== "" && scalar !== "~" && scalar !== "null") {
        problems.push(`line ${number}: ${key} is no section; ComfyUI doesn't start with it`);
      }
      continue;
    }
    const section = sections.at(-1);
    if (section === undefined || (section.indent ?? indent) !== indent) {
      problems.push(`line ${number}: ${key} is indented differently; ComfyUI doesn't start with it`);
      continue;
    }
    section.indent = indent;
    const block = /^([|>])([+-]?)(?: +#.*)?$/.exec(rest);
    if (block !== null) {
      const taken = takeBlock(lines, at, { parentIndent: indent, isFolded: block[1] === ">" });
      at = taken.next;
      section.values.set(key, { text: taken.text, isQuoted: true, line: number });
      continue;
    }
    const value = scalarOf(rest);
    if (value === null) problems.push(`line ${number}: the value of ${key} is not understood: ${rest.slice(0, 60)}`);
    else section.values.set(key, { ...value, line: number });
  }
  return sections;
}

/** The lines of a block text, from where they are indented. Trailing empty lines add no folder either way. */
function takeBlock(
  lines: readonly string[],
  from: number,
  { parentIndent, isFolded }: { readonly parentIndent: number; readonly isFolded: boolean },
): { readonly text: string; readonly next: number } {
  let at = from;
  let indent: number | null = null;
  const taken: string[] = [];
  for (; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (line.trim() === "") {
      taken.push("");
      continue;
    }
    const own = line.length - line.trimStart().length;
    indent ??= own;
    if (own <= parentIndent || own < indent) break;
    taken.push(line.slice(indent));
  }
  return { text: taken.join(isFolded ? " " : "\n").replace(/[\s]+$/, ""), next: at };
}

function plainOf(rest: string): string {
  return rest.startsWith("#") ? "" : rest.replace(/ +#.*$/, "").trim();
}

/** A value on one line; null for what isn't one this reader knows (lists, maps, anchors, tags). */
function scalarOf(rest: string): Pick<Value, "text" | "isQuoted"> | null {
  const quoted = /^'((?:[^']|'')*)'(?: +#.*)?$/.exec(rest)?.[1];
  if (quoted !== undefined) return { text: quoted.replaceAll("''", "'"), isQuoted: true };
  const double = /^("(?:[^"\\]|[\\]["\\/nt])*")(?: +#.*)?$/.exec(rest)?.[1];
  // as: a JSON text of this shape is a string; its escapes mean the same in YAML.
  if (double !== undefined) return { text: JSON.parse(double) as string, isQuoted: true };
  const text = plainOf(rest);
  return /^["'&*!|>%@`[{]|^[-?:](?:\s|$)|: |:$/.test(text) ? null : { text, isQuoted: false };
}
