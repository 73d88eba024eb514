/** Who imports whom: `deno info --json`, and the edges it doesn't see, from `new Worker(new URL(…))`. */
import { lineAt, mask, type Masked } from "./mask.ts";

/** How one module reaches another. `worker`: by starting it as a thread; for the layers as good as an import. */
export type EdgeKind = "value" | "type" | "worker";

export interface Edge {
  /** Path from the project's root, with `/`. */
  readonly from: string;
  /** The same, or `npm:name`, `node:name`, or the specifier as written for anything else. */
  readonly to: string;
  readonly kind: EdgeKind;
}

export interface Graph {
  readonly modules: readonly string[];
  readonly edges: readonly Edge[];
}

/** What the graph is made from: a folder on disk, or a test's own answers. */
export interface GraphSource {
  /** The answer of `deno info --json` for these files, all in one graph. */
  info(roots: readonly string[]): Promise<Info>;
  read(path: string): Promise<string>;
  /** Where the project's root is, as the answers spell it: ends in `/`. */
  readonly base: string;
}

interface Target {
  readonly specifier?: string;
  readonly error?: string;
}

interface Dependency {
  readonly specifier: string;
  readonly code?: Target;
  readonly type?: Target;
}

/** The part of `deno info --json` that is used. */
export interface Info {
  readonly modules: readonly {
    readonly specifier: string;
    readonly error?: string;
    readonly dependencies?: readonly Dependency[];
  }[];
}

/** Reads the graph of the roots and of every Worker entry point found on the way, which are roots too. */
export async function readGraph(source: GraphSource, roots: readonly string[]): Promise<Graph> {
  const edges = new Map<string, Edge>();
  const seen = new Set<string>();
  const add = (edge: Edge) => edges.set(`${edge.from} ${edge.to} ${edge.kind}`, edge);
  for (let open = [...roots]; open.length > 0;) {
    const info = await source.info(open);
    open = [];
    for (const module of info.modules) {
      const path = inProject(module.specifier, source.base);
      if (path === null || seen.has(path)) continue;
      // A stylesheet that the bundler takes in is no module to `deno info`, and has no imports to check.
      const isStyle = path.endsWith(".css");
      if (module.error !== undefined && !isStyle) throw new Error(`Cannot read ${path}: ${module.error}`);
      seen.add(path);
      for (const dependency of module.dependencies ?? []) importEdges(path, dependency, source.base).forEach(add);
      if (!/\.tsx?$/.test(path)) continue;
      for (const entry of workerEntries(path, await source.read(path))) {
        add({ from: path, to: entry, kind: "worker" });
        open.push(entry);
      }
    }
    open = open.filter((entry) => !seen.has(entry));
  }
  return { modules: [...seen].sort(), edges: [...edges.values()] };
}

function importEdges(from: string, dependency: Dependency, base: string): Edge[] {
  const edges: Edge[] = [];
  for (const [kind, target] of [["value", dependency.code], ["type", dependency.type]] as const) {
    if (target === undefined) continue;
    if (target.specifier === undefined) {
      throw new Error(`Cannot resolve ${dependency.specifier} in ${from}: ${target.error ?? "no reason given"}`);
    }
    edges.push({ from, to: nameOf(target.specifier, base), kind });
  }
  return edges;
}

function inProject(specifier: string, base: string): string | null {
  return specifier.startsWith(base) ? decodeURIComponent(specifier.slice(base.length)) : null;
}

function nameOf(specifier: string, base: string): string {
  const npm = /^npm:\/?((?:@[^/]+\/)?[^/@]+)/.exec(specifier);
  return npm?.[1] !== undefined ? `npm:${npm[1]}` : inProject(specifier, base) ?? specifier;
}

const NEW_WORKER = /\bnew\s+Worker\b/g;
const NEW_URL_ARGUMENT = /^\s*\(\s*new\s+URL\s*\(\s*["'`]/;

/** Entry points that a module starts as Workers; throws where the call doesn't say it in a way that can be followed. */
export function workerEntries(path: string, source: string, masked: Masked = mask(source)): string[] {
  return [...masked.code.matchAll(NEW_WORKER)].map((found) => {
    const behind = found.index + found[0].length;
    const head = NEW_URL_ARGUMENT.exec(masked.code.slice(behind));
    const start = head === null ? -1 : behind + head[0].length;
    const literal = masked.strings.find((string) => string.start === start);
    const isOwn = literal !== undefined &&
      /^["'`]\s*,\s*import\s*\.\s*meta\s*\.\s*url\s*\)/.test(masked.code.slice(start + literal.text.length));
    if (literal === undefined || !isOwn) {
      throw new Error(
        `Cannot follow the Worker in ${path}:${lineAt(source, found.index)}: ` +
          `write new Worker(new URL("./entry.ts", import.meta.url), …), so that its imports can be checked`,
      );
    }
    return new URL(literal.text, `file:///${path}`).pathname.slice(1);
  });
}

/** The project's folder, read by the `deno` that runs this. */
export function projectSource(root: URL): GraphSource {
  const deno = async (path: string): Promise<Info> => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["info", "--json", path],
      cwd: root,
      env: { NO_COLOR: "1" },
    }).output();
    const decoder = new TextDecoder();
    if (code !== 0) throw new Error(`Cannot read the module graph of ${path}: ${decoder.decode(stderr)}`);
    // The shape is Deno's own, version 1 of its answer; a field that is missing shows as an edge that is missing.
    return JSON.parse(decoder.decode(stdout)) as Info;
  };
  return {
    base: root.href,
    read: (path) => Deno.readTextFile(new URL(path, root)),
    // One call takes one root: a file that imports them all stands in for several.
    async info(roots) {
      const file = await Deno.makeTempFile({ prefix: "roots_", suffix: ".ts" });
      try {
        await Deno.writeTextFile(
          file,
          roots.map((path) => `import ${JSON.stringify(new URL(path, root).href)};\n`).join(""),
        );
        return await deno(file);
      } finally {
        await Deno.remove(file);
      }
    },
  };
}
