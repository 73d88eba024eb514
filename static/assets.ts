/**
 * The dashboard's files as text, so that a bundle or a compiled binary carries them inside. `deno task build` makes
 * static/dist first; without it this import fails and names the missing file.
 */
import css from "./dist/app.css" with { type: "text" };
import js from "./dist/app.js" with { type: "text" };
import favicon from "./favicon.svg" with { type: "text" };
import html from "./index.html" with { type: "text" };

export interface Asset {
  /** The Content-Type, charset included. */
  readonly type: string;
  readonly body: string | Uint8Array;
}

/** By URL path. `/` is the page. */
export const assets: ReadonlyMap<string, Asset> = new Map([
  ["/", { type: "text/html; charset=utf-8", body: html }],
  ["/app.js", { type: "text/javascript; charset=utf-8", body: js }],
  ["/app.css", { type: "text/css; charset=utf-8", body: css }],
  ["/favicon.svg", { type: "image/svg+xml", body: favicon }],
]);
