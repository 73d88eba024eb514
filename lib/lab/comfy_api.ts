import { validateGraph } from "./comfy_graph.ts";
import { type ComfyRoutes, jsonBody, jsonObject, sendJson, ServerTrouble } from "./comfy_http.ts";
import type { ComfyMemory } from "./comfy_memory.ts";
import { type ComfyModel, folderPaths, MODEL_FOLDERS } from "./comfy_models.ts";
import { describeClass, NODE_CLASSES } from "./comfy_nodes.ts";
import { type ComfyQueue, type HistoryEntry, UnorderableItems } from "./comfy_queue.ts";
import type { ComfySockets } from "./comfy_sockets.ts";
import type { ComfyWorker } from "./comfy_worker.ts";
import type { Exchange } from "./exchange.ts";
import type { Ground } from "./ground.ts";

export interface ComfyApiParts {
  readonly ground: Ground;
  readonly queue: ComfyQueue;
  readonly worker: ComfyWorker;
  readonly sockets: ComfySockets;
  readonly memory: ComfyMemory;
  readonly models: readonly ComfyModel[];
  readonly argv: readonly string[];
  readonly hostBytes: number;
  /** What a client id that isn't text does: the process exits within 0.1 s. */
  readonly crash: () => void;
}

type Data = Readonly<Record<string, unknown>>;

/** The routes of ComfyUI 0.3.64. */
export class ComfyApi {
  readonly #parts: ComfyApiParts;
  #number = 0;

  constructor(parts: ComfyApiParts) {
    this.#parts = parts;
  }

  get routes(): ComfyRoutes {
    const { queue, worker } = this.#parts;
    const files = (folder: string) => this.#files(folder);
    return {
      "/": { GET: (exchange) => exchange.send({ status: 200, headers: HTML, body: "<title>ComfyUI</title>" }) },
      "/ws": { GET: (exchange) => this.#upgrade(exchange) },
      "/queue": {
        GET: (exchange) => sendJson(exchange, this.#queueBody()),
        POST: (exchange) => this.#postQueue(exchange),
      },
      "/prompt": {
        GET: (exchange) => sendJson(exchange, { exec_info: { queue_remaining: queue.remaining } }),
        POST: (exchange) => this.#postPrompt(exchange),
      },
      "/interrupt": { POST: (exchange) => this.#interrupt(exchange) },
      "/free": {
        POST: (exchange) => {
          const body = jsonObject(exchange);
          const freeMemory = body["free_memory"] === true;
          const unloadModels = body["unload_models"] === true || freeMemory;
          queue.setFlags({ unloadModels, freeMemory });
          if (unloadModels) worker.notify();
          return exchange.send({ status: 200 });
        },
      },
      "/history": { GET: (exchange) => this.#history(exchange), POST: (exchange) => this.#postHistory(exchange) },
      "/history/": { GET: (exchange, id) => sendJson(exchange, pick(queue.history, id)) },
      "/system_stats": { GET: (exchange) => sendJson(exchange, this.#stats()) },
      "/models": { GET: (exchange) => sendJson(exchange, MODEL_FOLDERS) },
      "/models/": { GET: (exchange, folder) => this.#folder(exchange, folder) },
      "/experiment/models": { GET: (exchange) => sendJson(exchange, folderPaths()) },
      "/embeddings": { GET: (exchange) => sendJson(exchange, []) },
      "/features": {
        GET: (exchange) => sendJson(exchange, { supports_preview_metadata: true, max_upload_size: 104_857_600 }),
      },
      "/object_info": {
        GET: (exchange) =>
          sendJson(
            exchange,
            Object.fromEntries(Object.keys(NODE_CLASSES).map((name) => [name, describeClass(name, files)])),
          ),
      },
      "/object_info/": {
        GET: (exchange, name) =>
          sendJson(exchange, NODE_CLASSES[name] === undefined ? {} : { [name]: describeClass(name, files) }),
      },
      "/view": { GET: (exchange) => this.#view(exchange) },
    };
  }

  /** A picture's bytes: noise packs badly, a black one into next to nothing. */
  #view(exchange: Exchange): Promise<void> {
    const name = exchange.head.query.get("filename") ?? "";
    if (!name.startsWith("ComfyUI_temp_lab_")) return exchange.send({ status: 404 });
    const body = "x".repeat(name.includes("black") ? 700 : 20_000);
    return exchange.send({ status: 200, headers: [["Content-Type", "image/png"]], body });
  }

  async #upgrade(exchange: Exchange): Promise<void> {
    if (await this.#parts.sockets.accept(exchange)) return;
    const body = 'No WebSocket UPGRADE hdr: None\n Can "Upgrade" only to "WebSocket".';
    await exchange.send({ status: 400, headers: [["Content-Type", "text/plain; charset=utf-8"]], body });
  }

  #queueBody(): Data {
    const { running, pending } = this.#parts.queue;
    return { queue_running: running === null ? [] : [running], queue_pending: pending };
  }

  async #postPrompt(exchange: Exchange): Promise<void> {
    const body = jsonBody(exchange);
    // as: whatever isn't an object has no prompt in it.
    const fields = (typeof body === "object" && body !== null && !Array.isArray(body) ? body : {}) as Data;
    const number = this.#nextNumber(fields);
    const graph = fields["prompt"];
    if (typeof graph !== "object" || graph === null) {
      const error = { type: "no_prompt", message: "No prompt provided", details: "No prompt provided", extra_info: {} };
      return sendJson(exchange, { error, node_errors: {} }, 400);
    }
    const valid = validateGraph({ ...graph }, (folder) => this.#files(folder));
    if (!valid.ok) return sendJson(exchange, { error: valid.error, node_errors: valid.nodeErrors }, 400);
    const promptId = String(fields["prompt_id"] ?? this.#parts.ground.clock.uuid());
    const extra = {
      ...(typeof fields["extra_data"] === "object" ? fields["extra_data"] : {}),
      ...("client_id" in fields ? { client_id: fields["client_id"] } : {}),
    };
    try {
      // as: the graph was validated a few lines above.
      this.#parts.queue.put([number, promptId, graph as Parameters<ComfyQueue["put"]>[0][2], extra, valid.outputs]);
    } catch (error) {
      throw error instanceof UnorderableItems ? new ServerTrouble(error.message) : error;
    }
    this.#parts.worker.notify();
    await sendJson(exchange, { prompt_id: promptId, number, node_errors: valid.nodeErrors });
    if (typeof extra["client_id"] === "object" && extra["client_id"] !== null) this.#parts.crash();
  }

  /** Counts on for rejected prompts too. */
  #nextNumber(fields: Data): number {
    const own = fields["number"];
    if (own !== undefined) {
      const number = typeof own === "string" && own.trim() === "" ? NaN : Number(own);
      if (Number.isNaN(number)) throw new ServerTrouble(`could not convert string to float: '${own}'`);
      return number;
    }
    const number = this.#number;
    this.#number += 1;
    return fields["front"] === true ? -number : number;
  }

  async #postQueue(exchange: Exchange): Promise<void> {
    const body = jsonObject(exchange);
    if (body["clear"] === true) this.#parts.queue.clear();
    if (Array.isArray(body["delete"])) { for (const id of body["delete"]) this.#parts.queue.delete(String(id)); }
    await exchange.send({ status: 200 });
  }

  async #interrupt(exchange: Exchange): Promise<void> {
    const { queue, worker } = this.#parts;
    let wanted: unknown = null;
    try {
      const body: unknown = JSON.parse(exchange.text());
      if (Array.isArray(body)) throw new ServerTrouble("An array has no get");
      if (typeof body === "object" && body !== null && "prompt_id" in body) wanted = body.prompt_id;
    } catch (error) {
      // Of all the routes only this one takes an empty or broken body.
      if (error instanceof ServerTrouble) throw error;
    }
    if (wanted === null || queue.running?.[1] === wanted) worker.interrupt();
    await exchange.send({ status: 200 });
  }

  /** The newest `max_items` in the order they ended; with an offset, counted from the oldest. */
  async #history(exchange: Exchange): Promise<void> {
    const { query } = exchange.head;
    const all = [...this.#parts.queue.history];
    const max = wholeParameter(query.get("max_items"));
    const offset = wholeParameter(query.get("offset"));
    const start = offset ?? (max === null ? 0 : Math.max(0, all.length - max));
    await sendJson(exchange, Object.fromEntries(all.slice(start, max === null ? undefined : start + max)));
  }

  async #postHistory(exchange: Exchange): Promise<void> {
    const body = jsonObject(exchange);
    const { history } = this.#parts.queue;
    if (body["clear"] === true) history.clear();
    if (Array.isArray(body["delete"])) { for (const id of body["delete"]) history.delete(String(id)); }
    await exchange.send({ status: 200 });
  }

  #files(folder: string): readonly string[] {
    return this.#parts.models.filter((model) => model.folder === folder).map((model) => model.name).sort();
  }

  #folder(exchange: Exchange, folder: string): Promise<void> {
    const isKnown = (MODEL_FOLDERS as readonly string[]).includes(folder);
    return isKnown ? sendJson(exchange, this.#files(folder)) : exchange.send({ status: 404 });
  }

  #stats(): Data {
    const { ground, memory, argv, hostBytes } = this.#parts;
    const { card } = ground.table;
    return {
      system: {
        os: "posix",
        ram_total: hostBytes,
        ram_free: Math.round(hostBytes * 0.8),
        comfyui_version: "0.3.64",
        required_frontend_version: "1.27.10",
        installed_templates_version: "0.1.95",
        required_templates_version: "0.1.95",
        python_version: "3.11.7 (main) [GCC 12.2.0]",
        pytorch_version: "2.15.0+cu132",
        embedded_python: false,
        argv,
      },
      devices: [{
        name: `cuda:0 ${card.name} : cudaMallocAsync`,
        type: "cuda",
        index: 0,
        vram_total: card.totalBytes,
        // What torch keeps for later counts as free.
        vram_free: ground.vram.freeBytes + memory.cacheBytes,
        torch_vram_total: memory.heldBytes,
        torch_vram_free: memory.cacheBytes,
      }],
    };
  }
}

const HTML = [["Content-Type", "text/html"]] as const;

function pick(history: ReadonlyMap<string, HistoryEntry>, id: string): Data {
  const entry = history.get(id);
  return entry === undefined ? {} : { [id]: entry };
}

function wholeParameter(text: string | null): number | null {
  if (text === null) return null;
  const value = Number(text);
  if (!Number.isInteger(value)) throw new ServerTrouble(`invalid literal for int(): '${text}'`);
  return value;
}
