/** What a service's process keeps: its main thread's live objects after a collection, asked of its inspector, and RSS. */

export interface Kept {
  readonly heapMb: number;
  readonly rssMb: number;
}

interface Answer {
  readonly id?: number;
  readonly result?: { readonly result?: { readonly value?: unknown } };
  readonly error?: { readonly message: string };
}

const ASK = "JSON.stringify(Deno.memoryUsage())";

export class MemoryProbe {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, PromiseWithResolvers<Answer>>();
  #asked = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      const answer: Answer = JSON.parse(data);
      this.#waiting.get(answer.id ?? 0)?.resolve(answer);
    };
    // A process that is gone answers nothing more.
    socket.onclose = () =>
      this.#waiting.forEach(({ reject }) => reject(new Error("Cannot ask: the service has ended")));
  }

  /** Of a service that was started with `--inspect=127.0.0.1:<port>`. */
  static async open(port: number): Promise<MemoryProbe> {
    const [target] = await (await fetch(`http://127.0.0.1:${port}/json`)).json();
    const socket = new WebSocket(target.webSocketDebuggerUrl);
    await new Promise((resolve, reject) => {
      socket.onopen = resolve;
      socket.onerror = reject;
    });
    return new MemoryProbe(socket);
  }

  async read(): Promise<Kept> {
    // Twice: what the first finds dead may have held others.
    await this.#ask("HeapProfiler.collectGarbage");
    await this.#ask("HeapProfiler.collectGarbage");
    const { result } = await this.#ask("Runtime.evaluate", { expression: ASK });
    const { heapUsed, external, rss } = JSON.parse(String(result?.result?.value));
    return { heapMb: (heapUsed + external) / 1e6, rssMb: rss / 1e6 };
  }

  close(): void {
    this.#socket.close();
  }

  async #ask(method: string, params: object = {}): Promise<Answer> {
    const id = ++this.#asked;
    const waiting = Promise.withResolvers<Answer>();
    this.#waiting.set(id, waiting);
    this.#socket.send(JSON.stringify({ id, method, params }));
    const answer = await waiting.promise;
    this.#waiting.delete(id);
    if (answer.error !== undefined) throw new Error(`Cannot ${method}: ${answer.error.message}`);
    return answer;
  }
}
