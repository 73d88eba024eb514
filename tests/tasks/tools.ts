/** What the whole run needs beside Deno and npm, looked for once. A reason says why a tool can't be used. */

/** The Deno whose runtime the binary is made of; what the code must run on beside the pinned one. */
export const SHIPPED_DENO = "2.4.2";

/**
 * How V8 keeps its heaps, the service's threads' too. Left alone it lets a small heap grow to several times what is alive
 * before it collects: in requests' litter, and in buffers of the C heap that only litter still holds. A small nursery and
 * a collection after 30 % of growth cost some CPU. V8 reads them once, when the process starts, so no code can set them.
 */
export const HEAP_FLAGS = "--v8-flags=--max-semi-space-size=4,--heap-growing-percent=30";

export const ROOT = new URL("../../", import.meta.url);

export type Found = { readonly path: string } | { readonly reason: string };

export interface Answer {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, in the project's folder, plain text out. Throws only when there is no such program. */
export async function ask(
  program: string,
  args: readonly string[],
  options: { readonly env?: Readonly<Record<string, string>>; readonly cwd?: string | URL } = {},
): Promise<Answer> {
  const output = await new Deno.Command(program, {
    args: [...args],
    cwd: options.cwd ?? ROOT,
    env: { NO_COLOR: "1", ...options.env },
    stdin: "null",
  }).output();
  const decoder = new TextDecoder();
  return { code: output.code, stdout: decoder.decode(output.stdout), stderr: decoder.decode(output.stderr) };
}

/** A program on PATH. */
export async function onPath(program: string, use: string): Promise<Found> {
  for (const folder of (Deno.env.get("PATH") ?? "").split(":").filter((part) => part !== "")) {
    const path = `${folder}/${program}`;
    if (await isFile(path)) return { path };
  }
  return { reason: `no ${program} on PATH (${use})` };
}

/** Chromium by Debian's names. */
export async function chromium(): Promise<Found> {
  for (const name of ["chromium", "chromium-browser", "google-chrome"]) {
    const found = await onPath(name, "drives the dashboard");
    if ("path" in found) return found;
  }
  return { reason: "no chromium on PATH (drives the dashboard)" };
}

/** The shipped Deno, fetched through npm where it isn't yet; its own path, since npx doesn't pass signals on. */
export async function shippedDeno(): Promise<Found> {
  const npx = await onPath("npx", `fetches Deno ${SHIPPED_DENO}`);
  if ("reason" in npx) return npx;
  const answer = await ask(npx.path, ["-y", `deno@${SHIPPED_DENO}`, "eval", "console.log(Deno.execPath())"], {
    env: { DENO_TLS_CA_STORE: "system" },
  });
  const path = answer.stdout.trim();
  if (answer.code !== 0 || path === "") {
    return { reason: `npx could not fetch deno@${SHIPPED_DENO}: ${answer.stderr.trim().split("\n").at(-1) ?? ""}` };
  }
  return { path };
}

/** The runtime that `deno compile` puts under a program: from DENORT_BIN, or a tool beside the project that prints it. */
export async function denort(): Promise<Found> {
  const given = Deno.env.get("DENORT_BIN");
  if (given !== undefined && given !== "") {
    return await isFile(given) ? { path: given } : { reason: `DENORT_BIN names ${given}, which is not a file` };
  }
  const tool = new URL("../shared/tools/denort", ROOT).pathname;
  if (!await isFile(tool)) return { reason: `no denort ${SHIPPED_DENO}: set DENORT_BIN to its path` };
  const answer = await ask(tool, []);
  const path = answer.stdout.trim();
  return answer.code === 0 && await isFile(path) ? { path } : { reason: `${tool} failed: ${answer.stderr.trim()}` };
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await Deno.stat(path)).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) return false;
    throw error;
  }
}
