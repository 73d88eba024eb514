/** The dashboard's files, held in memory: each with its ETag, its cache rule and a gzipped copy made when first asked for. */
import { createHash } from "node:crypto";

/** Embedded files by their path under `/`, such as `index.html` or `assets/app-3f2a91bc.js`. */
export type Assets = ReadonlyMap<string, Uint8Array | string>;

const TYPES: Readonly<Record<string, string>> = {
  css: "text/css; charset=utf-8",
  html: "text/html; charset=utf-8",
  ico: "image/x-icon",
  js: "text/javascript; charset=utf-8",
  json: "application/json; charset=utf-8",
  map: "application/json; charset=utf-8",
  png: "image/png",
  svg: "image/svg+xml; charset=utf-8",
  txt: "text/plain; charset=utf-8",
  webmanifest: "application/manifest+json; charset=utf-8",
  woff2: "font/woff2",
};

/** Types that compress well; pictures and fonts are compressed already. */
const COMPRESSIBLE = /^(text\/|application\/(json|manifest)|image\/svg)/;

/** Below this a gzipped copy saves less than its header costs. */
const MIN_GZIP_BYTES = 860;

/** A name that carries a hash of its content never changes its content. */
const HASHED_NAME = /[-.][0-9a-zA-Z_]{8,}\.\w+$/;

interface Prepared {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly type: string;
  readonly etag: string;
  readonly cacheControl: string;
  gzip: Promise<Uint8Array<ArrayBuffer>> | null;
}

/** Answers requests for embedded files. */
export class AssetServer {
  readonly #assets: Assets;
  readonly #prepared = new Map<string, Prepared>();

  constructor(assets: Assets) {
    this.#assets = assets;
  }

  /** The answer to a GET of `path` (without query), or null when there is no such file. `/` means `index.html`, `/x` also `x.html`. */
  async respond(path: string, request: Request): Promise<Response | null> {
    const name = path === "/" ? "index.html" : path.replace(/^\//, "");
    const file = this.#prepare(name) ?? this.#prepare(`${name}.html`);
    if (file === null) return null;
    const headers = new Headers({
      "content-type": file.type,
      "cache-control": file.cacheControl,
      "etag": file.etag,
      "vary": "accept-encoding",
    });
    if (matches(request.headers.get("if-none-match"), file.etag)) return new Response(null, { status: 304, headers });
    const zipped = acceptsGzip(request) && isWorthZipping(file) ? await (file.gzip ??= gzip(file.bytes)) : null;
    if (zipped !== null) headers.set("content-encoding", "gzip");
    const body = zipped ?? file.bytes;
    headers.set("content-length", String(body.byteLength));
    return new Response(body, { headers });
  }

  #prepare(name: string): Prepared | null {
    const known = this.#prepared.get(name);
    if (known !== undefined) return known;
    const content = this.#assets.get(name);
    if (content === undefined) return null;
    // Copied once: a view over somebody's larger or shared buffer can't be a response's body.
    const bytes = typeof content === "string" ? new TextEncoder().encode(content) : new Uint8Array(content);
    const prepared: Prepared = {
      bytes,
      type: TYPES[name.slice(name.lastIndexOf(".") + 1)] ?? "application/octet-stream",
      etag: `"${createHash("sha256").update(bytes).digest("base64url").slice(0, 22)}"`,
      cacheControl: HASHED_NAME.test(name) ? "public, max-age=31536000, immutable" : "no-cache",
      gzip: null,
    };
    this.#prepared.set(name, prepared);
    return prepared;
  }
}

function isWorthZipping({ bytes, type }: Prepared): boolean {
  return bytes.byteLength >= MIN_GZIP_BYTES && COMPRESSIBLE.test(type);
}

/** Whether the caller has what the (strong part of the) tag names. */
export function matches(ifNoneMatch: string | null, etag: string): boolean {
  if (ifNoneMatch === null) return false;
  return ifNoneMatch.split(",").some((given) => given.trim().replace(/^W\//, "") === etag || given.trim() === "*");
}

export function acceptsGzip(request: Request): boolean {
  return /\bgzip\b(?!\s*;\s*q=0(\.0*)?\s*(,|$))/.test(request.headers.get("accept-encoding") ?? "");
}

export async function gzip(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  const zipped = new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip"));
  return new Uint8Array(await new Response(zipped).arrayBuffer());
}
