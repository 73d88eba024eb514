/** HyperSwap as a process: started as a user would, asked over its doors, ended by a signal. */
import { HEAP_FLAGS, ROOT } from "../tasks/tools.ts";

/** How HyperSwap is called: from source, or as the compiled binary; perhaps under a tracer. */
export interface Program {
  readonly path: string;
  readonly args: readonly string[];
}

export const FROM_SOURCE: Program = { path: Deno.execPath(), args: ["run", "-A", HEAP_FLAGS, "main.ts"] };

export interface Ended {
  readonly code: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface StartOptions {
  readonly command: "serve" | "demo";
  /** Holds the state, the socket and nothing else; the caller's to remove. */
  readonly folder: string;
  readonly flags?: readonly string[];
  /** Default: a port that is free. */
  readonly port?: number;
  readonly env?: Readonly<Record<string, string>>;
}

/** Long enough for a cold start on a busy machine; never waited for when all is well. */
const START_LIMIT_MS = 60_000;
const STOP_LIMIT_MS = 20_000;

export class RunningService {
  readonly url: string;
  readonly folder: string;
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<Ended>;
  readonly #said: string[] = [];
  #hasEnded = false;

  private constructor(child: Deno.ChildProcess, url: string, folder: string) {
    this.url = url;
    this.folder = folder;
    this.#child = child;
    this.#ended = ended(child, (text) => this.#said.push(text)).finally(() => this.#hasEnded = true);
  }

  /** Starts it and waits until it answers. */
  static async start(program: Program, options: StartOptions): Promise<RunningService> {
    // A service that owns a real card sets it: tests never do.
    if (options.command === "serve" && options.flags?.includes("--nvml") !== true) {
      throw new Error("Cannot start a service in a test without --nvml: it would set this machine's card");
    }
    const port = options.port ?? freePort();
    const child = spawn(program, [
      options.command,
      ...["--host", "127.0.0.1", "--port", String(port)],
      ...["--state-dir", `${options.folder}/state`, "--socket", socketIn(options.folder)],
      ...(options.flags ?? []),
    ], options.env);
    const service = new RunningService(child, `http://127.0.0.1:${port}`, options.folder);
    try {
      await service.#untilReady();
    } catch (error) {
      await service[Symbol.asyncDispose]();
      throw error;
    }
    return service;
  }

  /** All it has printed so far. */
  get said(): string {
    return this.#said.join("");
  }

  /** The process that serves (under a tracer not the one that was started). */
  async pid(): Promise<number> {
    const { pid } = await this.get("/api/version");
    return Number(pid);
  }

  async get(path: string): Promise<Record<string, unknown>> {
    return await answerOf(await this.#ask(path), path);
  }

  #ask(path: string): Promise<Response> {
    return fetch(this.url + path, { signal: AbortSignal.timeout(10_000) });
  }

  async post(path: string, body: unknown): Promise<Record<string, unknown>> {
    const response = await fetch(this.url + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(30_000),
    });
    return await answerOf(response, path);
  }

  /** Asks until the answer is as wanted (503: not yet); the last one is in the error when it never is. */
  async until(
    path: string,
    isWanted: (answer: Record<string, unknown>) => boolean,
    limitMs = 30_000,
  ): Promise<Record<string, unknown>> {
    const deadline = performance.now() + limitMs;
    for (;;) {
      const response = await this.#ask(path);
      const answer = response.status === 503 ? await response.json() : await answerOf(response, path);
      if (response.ok && isWanted(answer)) return answer;
      if (performance.now() > deadline) {
        throw new Error(`${path} is not as wanted after ${limitMs / 1000} s: ${JSON.stringify(answer).slice(0, 2000)}`);
      }
      await pause();
    }
  }

  /** Signals the serving process and resolves when the one that was started has ended. */
  async end(signal: Deno.Signal): Promise<Ended> {
    Deno.kill(await this.pid(), signal);
    return await withLimit(this.#ended, STOP_LIMIT_MS, `it did not end after ${signal}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#hasEnded) this.#child.kill("SIGKILL");
    await this.#ended;
  }

  async #untilReady(): Promise<void> {
    const deadline = performance.now() + START_LIMIT_MS;
    for (;;) {
      if (this.#hasEnded) throw new Error(`HyperSwap ended instead of starting:\n${this.said}`);
      try {
        const { service } = await this.get("/api/version");
        if (service === "hyperswap") return;
      } catch (error) {
        if (performance.now() > deadline) throw new Error(`HyperSwap does not answer:\n${this.said}`, { cause: error });
      }
      await pause();
    }
  }
}

async function answerOf(response: Response, path: string): Promise<Record<string, unknown>> {
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${await response.text()}`);
  return await response.json();
}

/** Runs a command of HyperSwap to its end. */
export async function runToEnd(
  program: Program,
  args: readonly string[],
  { limitMs = START_LIMIT_MS, env = {} }: {
    readonly limitMs?: number;
    readonly env?: Readonly<Record<string, string>>;
  } = {},
): Promise<Ended> {
  const child = spawn(program, args, env);
  try {
    return await withLimit(ended(child), limitMs, `hyperswap ${args.join(" ")} did not end`);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

export function socketIn(folder: string): string {
  return `${folder}/hyperswap.sock`;
}

/** A port that was free a moment ago. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

function spawn(
  program: Program,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Deno.ChildProcess {
  return new Deno.Command(program.path, {
    args: [...program.args, ...args],
    cwd: ROOT,
    env: { ...env, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

async function ended(child: Deno.ChildProcess, onText: (text: string) => void = () => {}): Promise<Ended> {
  const [stdout, stderr, status] = await Promise.all([
    textOf(child.stdout, onText),
    textOf(child.stderr, onText),
    child.status,
  ]);
  return { code: status.code, signal: status.signal, stdout, stderr };
}

async function textOf(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  onText: (text: string) => void,
): Promise<string> {
  let whole = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    whole += text;
    onText(text);
  }
  return whole;
}

async function withLimit<T>(promise: Promise<T>, limitMs: number, message: string): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => reject(new Error(`${message} within ${limitMs / 1000} s`)), limitMs);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

/** Between two questions to a process that has its own time. */
function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 50));
}
