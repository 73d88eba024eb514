/**
 * The dashboard's files as text, so that a bundle or a compiled binary carries them inside. `deno task build` makes
 * static/dist first; without it this import fails and names the missing file.
 */
import css from "./dist/app.css" with { type: "text" };
import js from "./dist/app.js" with { type: "text" };
import favicon from "./favicon.svg" with { type: "text" };
import html from "./index.html" with { type: "text" };

/** By path below `/`. */
export const assets: ReadonlyMap<string, string> = new Map([
  ["index.html", html],
  ["app.js", js],
  ["app.css", css],
  ["favicon.svg", favicon],
]);
