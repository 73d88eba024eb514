import type { Graph } from "./comfy_graph.ts";

/** As it stands in `/queue`: number, id, graph, extra data, outputs. Lower numbers run first. */
export type QueueItem = readonly [
  number: number,
  promptId: string,
  graph: Graph,
  extraData: Readonly<Record<string, unknown>>,
  outputs: readonly string[],
];

/** What is written when a prompt has ended. */
export interface HistoryEntry {
  readonly prompt: QueueItem;
  readonly outputs: Readonly<Record<string, unknown>>;
  readonly status: {
    readonly status_str: "success" | "error";
    readonly completed: boolean;
    readonly messages: readonly (readonly [string, Readonly<Record<string, unknown>>])[];
  };
  readonly meta: Readonly<Record<string, unknown>>;
}

const MAX_HISTORY = 10_000;

/** Two prompts alike in number and id can't be ordered: the real server fails on that with a 500. */
export class UnorderableItems extends Error {}

/**
 * Pending prompts as Python's heapq keeps them (a heap, not a sorted list: that is what `/queue` shows), the running one,
 * the history, and the two flags of `/free`.
 */
export class ComfyQueue {
  readonly pending: QueueItem[] = [];
  running: QueueItem | null = null;
  readonly history = new Map<string, HistoryEntry>();
  readonly #onChange: () => void;
  #flags: { unloadModels: boolean; freeMemory: boolean } = { unloadModels: false, freeMemory: false };

  /** `onChange` stands for the status frame that goes to everyone. */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
  }

  get remaining(): number {
    return this.pending.length + (this.running === null ? 0 : 1);
  }

  put(item: QueueItem): void {
    this.pending.push(item);
    this.#siftDown(this.pending.length - 1);
    this.#onChange();
  }

  /** Takes the first pending prompt and makes it the running one. */
  take(): QueueItem | null {
    const last = this.pending.pop();
    if (last === undefined) return null;
    const first = this.pending[0] ?? last;
    if (this.pending.length > 0) {
      this.pending[0] = last;
      this.#siftUp(0);
    }
    this.running = first;
    this.#onChange();
    return first;
  }

  done(entry: HistoryEntry): void {
    const [, promptId] = entry.prompt;
    this.running = null;
    this.history.set(promptId, entry);
    const oldest = this.history.size > MAX_HISTORY ? this.history.keys().next().value : undefined;
    if (oldest !== undefined) this.history.delete(oldest);
    this.#onChange();
  }

  clear(): void {
    this.pending.length = 0;
    this.#onChange();
  }

  /** Pending ones only; deleting the only one goes by way of clearing, and so tells twice. */
  delete(promptId: string): void {
    const at = this.pending.findIndex(([, id]) => id === promptId);
    if (at < 0) return;
    if (this.pending.length === 1) this.clear();
    else {
      this.pending.splice(at, 1);
      for (let index = (this.pending.length >> 1) - 1; index >= 0; index -= 1) this.#siftUp(index);
    }
    this.#onChange();
  }

  setFlags(flags: { readonly unloadModels: boolean; readonly freeMemory: boolean }): void {
    if (flags.unloadModels) this.#flags.unloadModels = true;
    if (flags.freeMemory) this.#flags.freeMemory = true;
  }

  takeFlags(): { readonly unloadModels: boolean; readonly freeMemory: boolean } {
    const taken = this.#flags;
    this.#flags = { unloadModels: false, freeMemory: false };
    return taken;
  }

  /** heapq's `_siftdown`: moves a new leaf towards the root. */
  #siftDown(from: number): void {
    let at = from;
    const item = this.#at(at);
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!isBefore(item, this.#at(parent))) break;
      this.pending[at] = this.#at(parent);
      at = parent;
    }
    this.pending[at] = item;
  }

  /** heapq's `_siftup`: lets the smaller child rise until a leaf is reached, then puts the item there and sifts it down. */
  #siftUp(from: number): void {
    let at = from;
    const item = this.#at(at);
    for (let child = 2 * at + 1; child < this.pending.length; child = 2 * at + 1) {
      const right = child + 1;
      if (right < this.pending.length && !isBefore(this.#at(child), this.#at(right))) child = right;
      this.pending[at] = this.#at(child);
      at = child;
    }
    this.pending[at] = item;
    while (at > from) {
      const parent = (at - 1) >> 1;
      if (parent < from || !isBefore(item, this.#at(parent))) break;
      this.pending[at] = this.#at(parent);
      at = parent;
    }
    this.pending[at] = item;
  }

  #at(index: number): QueueItem {
    const item = this.pending[index];
    if (item === undefined) throw new RangeError(`Cannot find item ${index} of ${this.pending.length}`);
    return item;
  }
}

function isBefore(one: QueueItem, other: QueueItem): boolean {
  if (one === other) return false;
  if (one[0] !== other[0]) return one[0] < other[0];
  if (one[1] !== other[1]) return one[1] < other[1];
  throw new UnorderableItems("'<' not supported between instances of 'dict' and 'dict'");
}
