/** Reads what real servers answered, kept in tests/fixtures. */
const ROOT = new URL("../fixtures/", import.meta.url);

export const OLLAMA_VERSIONS = ["v0.24.0", "v0.33.0"] as const;

/** Text of a recorded file, e.g. "ollama/v0.24.0/ps-two.json". */
export function recorded(path: string): string {
  return Deno.readTextFileSync(new URL(path, ROOT));
}

/** Paths of all files below a folder, sorted. */
export function recordedFiles(folder: string): readonly string[] {
  const found: string[] = [];
  for (const entry of Deno.readDirSync(new URL(`${folder}/`, ROOT))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) found.push(...recordedFiles(path));
    else found.push(path);
  }
  return found.sort();
}

/** One HTTP exchange with ComfyUI. */
export interface RecordedExchange {
  readonly request: { readonly method: string; readonly path: string };
  readonly response: { readonly status: number; readonly text: string };
}

/** The exchanges of a `comfyui/http-*.json`, by name. */
export function recordedExchanges(file: string): ReadonlyMap<string, RecordedExchange> {
  const exchanges = new Map<string, RecordedExchange>();
  for (const [name, { request, response }] of Object.entries<RawExchange>(JSON.parse(recorded(`comfyui/${file}`)))) {
    const text = response.body === undefined ? response.body_text ?? "" : JSON.stringify(response.body);
    exchanges.set(name, { request, response: { status: response.status, text } });
  }
  return exchanges;
}

/** The body of one exchange. */
export function recordedBody(file: string, name: string): string {
  const exchange = recordedExchanges(file).get(name);
  if (exchange === undefined) throw new Error(`Cannot find ${name} in ${file}`);
  return exchange.response.text;
}

interface RawExchange {
  readonly request: { readonly method: string; readonly path: string };
  readonly response: { readonly status: number; readonly body?: unknown; readonly body_text?: string };
}

/** One line of a `comfyui/ws/*.jsonl`. */
export interface RecordedEvent {
  readonly ms: number;
  readonly to: "observer" | "anonymous" | "submitter" | "second" | "http";
  readonly frame?: unknown;
  readonly binary?: { readonly bytes: number; readonly base64?: string };
  readonly http?: { readonly status?: number; readonly body?: { readonly prompt_id?: string } };
  readonly closed?: unknown;
}

export function recordedSocket(name: string): readonly RecordedEvent[] {
  return recorded(`comfyui/ws/${name}.jsonl`).trim().split("\n").map((line) => JSON.parse(line));
}
