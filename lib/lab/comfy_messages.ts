import type { QueueItem } from "./comfy_queue.ts";

type Data = Readonly<Record<string, unknown>>;

export interface RunningNode {
  readonly id: string;
  readonly type: string;
  readonly inputs: Data;
  readonly executed: readonly string[];
}

/**
 * The frames of one prompt, and which of them go to whom: nearly all to the client that posted it alone; progress and
 * interruptions to everyone when it gave no client id, and then nothing else to anyone. The history keeps the rest.
 */
export class ComfyMessages {
  /** What `/history` shows of it, whoever listened. */
  readonly kept: (readonly [string, Data])[] = [];
  readonly #promptId: string;
  /** Null: posted without an id, so that progress goes to everyone. */
  readonly #client: string | null;
  readonly #send: (type: string, to: string | null, data: Data) => void;
  readonly #nowMs: () => number;
  readonly #nodes: Record<string, Data> = {};

  constructor(item: QueueItem, parts: {
    readonly send: (type: string, to: string | null, data: Data) => void;
    readonly nowMs: () => number;
  }) {
    this.#promptId = item[1];
    const client = item[3]["client_id"];
    // A number or an empty text is an id that nobody listens to.
    this.#client = client === undefined || client === null ? null : String(client);
    this.#send = parts.send;
    this.#nowMs = parts.nowMs;
  }

  get client(): string | null {
    return this.#client;
  }

  started(): void {
    this.#keep("execution_start", {});
  }

  cached(nodes: readonly string[]): void {
    this.#keep("execution_cached", { nodes });
  }

  succeeded(): void {
    this.#keep("execution_success", {});
  }

  failed(node: RunningNode, { type, message }: { readonly type: string; readonly message: string }): void {
    this.#keep("execution_error", {
      node_id: node.id,
      node_type: node.type,
      executed: node.executed,
      exception_message: message,
      exception_type: type,
      traceback: [`  File "/opt/ComfyUI/execution.py", line 496, in execute\n`],
      current_inputs: Object.fromEntries(Object.entries(node.inputs).map(([name, value]) => [name, [value]])),
      current_outputs: [node.id],
    });
  }

  interrupted(node: RunningNode): void {
    const fields = { node_id: node.id, node_type: node.type, executed: node.executed };
    this.#keep("execution_interrupted", fields, { isBroadcast: true });
  }

  executing(id: string): void {
    this.#progressState(id, { value: 0, max: 1, state: "running" });
    this.#toClient("executing", { node: id, display_node: id, prompt_id: this.#promptId });
  }

  progress(id: string, { value, max }: { readonly value: number; readonly max: number }): void {
    this.#progressState(id, { value, max, state: "running" });
    this.#send("progress", this.#client, { value, max, prompt_id: this.#promptId, node: id });
  }

  executed(id: string, output: Data): void {
    this.#toClient("executed", { node: id, display_node: id, output, prompt_id: this.#promptId });
  }

  finished(id: string): void {
    const { max = 1 } = this.#nodes[id] ?? {};
    this.#progressState(id, { value: max, max, state: "finished" });
  }

  /** The end of everything for the client: comes after the status frame. */
  ended(): void {
    this.#toClient("executing", { node: null, prompt_id: this.#promptId });
  }

  #progressState(id: string, fields: Data): void {
    const names = { node_id: id, prompt_id: this.#promptId, display_node_id: id };
    this.#nodes[id] = { ...fields, ...names, parent_node_id: null, real_node_id: id };
    this.#send("progress_state", this.#client, { prompt_id: this.#promptId, nodes: { ...this.#nodes } });
  }

  #keep(type: string, fields: Data, { isBroadcast = false } = {}): void {
    const data = { prompt_id: this.#promptId, ...fields, timestamp: Math.floor(this.#nowMs()) };
    // The kept order of keys: nodes before the id, as recorded.
    const ordered = "nodes" in fields ? { nodes: fields["nodes"], ...data } : data;
    this.kept.push([type, ordered]);
    if (this.#client !== null || isBroadcast) this.#send(type, this.#client, ordered);
  }

  #toClient(type: string, data: Data): void {
    if (this.#client !== null) this.#send(type, this.#client, data);
  }
}
