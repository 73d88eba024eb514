import type { Clock, ComfyApi } from "../model/ports.ts";
import {
  type HistoryEntry,
  type ModelFoldersAnswer,
  parseHistory,
  parseModelFolders,
  parseModelNames,
  parseQueue,
  parseStats,
} from "./comfy_parse.ts";
import { type HttpOrigin, httpOrigin, type HttpRequest } from "./http.ts";
import { isRemoteUrl } from "./locality.ts";
import { UpstreamError } from "./upstream_error.ts";

export interface ComfyOptions {
  /** Base URL, e.g. http://127.0.0.1:8188. */
  readonly url: string;
  readonly clock: Clock;
  /** Names and addresses of this machine besides loopback. */
  readonly localHosts?: readonly string[];
}

/** What the port offers, and the list that the watcher needs for prompts too short to be caught running. */
export interface ComfyClient extends ComfyApi {
  completion(promptId: string, signal: AbortSignal): Promise<HistoryEntry | null>;
  /** The newest finished prompts, at most `limit`, oldest first. */
  recent(limit: number, signal: AbortSignal): Promise<readonly HistoryEntry[]>;
  /** Which folders it reads for which kind of model; empty when it is too old to say. */
  modelFolders(signal: AbortSignal): Promise<readonly ModelFoldersAnswer[]>;
}

// ComfyUI answers from the process that computes: while it collects garbage or a node holds the interpreter, nothing
// comes for up to 2 s. A deadline below that calls a healthy server dead.
const QUEUE = { method: "GET", path: "/queue", deadlineMs: 5_000, action: "read ComfyUI's queue" } as const;
const STATS = { method: "GET", path: "/system_stats", deadlineMs: 5_000, action: "read ComfyUI's statistics" } as const;
const HISTORY = { method: "GET", deadlineMs: 10_000, action: "read ComfyUI's history" } as const;
const FOLDERS = {
  method: "GET",
  path: "/experiment/models",
  deadlineMs: 5_000,
  action: "list ComfyUI's model folders",
} as const;
const MODELS = { method: "GET", deadlineMs: 5_000 } as const;
const FREE = { method: "POST", path: "/free", deadlineMs: 5_000, action: "ask ComfyUI to free its memory" } as const;
const INTERRUPT = { method: "POST", path: "/interrupt", deadlineMs: 5_000, action: "interrupt ComfyUI" } as const;

/** Folder names of old that the server no longer answers to. */
const FOLDER_ALIASES: Readonly<Record<string, string>> = { clip: "text_encoders", unet: "diffusion_models" };

/** A client of one ComfyUI server. Opens nothing until asked. */
export function connectComfy(options: ComfyOptions): ComfyClient {
  const routes = prefixedRoutes(httpOrigin(options));
  return {
    url: routes.url,
    isRemote: isRemoteUrl(routes.url, options.localHosts),
    stats: (signal) => routes.ask({ ...STATS, signal }, parseStats),
    queue: (signal) => routes.ask({ ...QUEUE, signal }, parseQueue),
    async completion(promptId, signal) {
      const path = `/history/${encodeURIComponent(promptId)}`;
      const entries = await routes.ask({ ...HISTORY, path, signal }, parseHistory);
      return entries.find((entry) => entry.promptId === promptId) ?? null;
    },
    recent: (limit, signal) => routes.ask({ ...HISTORY, path: `/history?max_items=${limit}`, signal }, parseHistory),
    async free(signal) {
      // Both: with --highvram only free_memory lowers VRAM, and it drops the cached nodes' RAM as well.
      const body = { unload_models: true, free_memory: true };
      await routes.ask({ ...FREE, body, signal }, ignoreBody);
    },
    async interrupt(promptId, signal) {
      await routes.ask({ ...INTERRUPT, body: { prompt_id: promptId }, signal }, ignoreBody);
    },
    async modelFolders(signal) {
      try {
        return await routes.ask({ ...FOLDERS, signal }, parseModelFolders);
      } catch (error) {
        if (error instanceof UpstreamError && error.status === 404) return [];
        throw error;
      }
    },
    async models(folder, signal) {
      const name = FOLDER_ALIASES[folder] ?? folder;
      const request = {
        ...MODELS,
        path: `/models/${encodeURIComponent(name)}`,
        action: `list ComfyUI's ${name}`,
        signal,
      };
      try {
        return await routes.ask(request, parseModelNames);
      } catch (error) {
        // The server doesn't know the folder.
        if (error instanceof UpstreamError && error.status === 404) return [];
        throw error;
      }
    },
  };
}

/** Receipts have no body and no Content-Type. */
function ignoreBody(): void {}

/**
 * Every route exists under /api, where no frontend file can stand in its way; forks and old versions have the bare
 * ones only. Which it is, is learned from the first answer and asked again after a route was not found.
 */
function prefixedRoutes(origin: HttpOrigin): Pick<HttpOrigin, "url" | "ask"> {
  let prefix: "/api" | "" | null = null;
  return {
    url: origin.url,
    async ask<T>(request: HttpRequest, parse: (text: string) => T): Promise<T> {
      const candidates = prefix === null ? ["/api", ""] as const : [prefix];
      let notFound: unknown = null;
      for (const candidate of candidates) {
        try {
          const answer = await origin.ask({ ...request, path: candidate + request.path }, parse);
          prefix = candidate;
          return answer;
        } catch (error) {
          if (!isNoRoute(error)) throw error;
          notFound ??= error;
        }
      }
      prefix = null;
      throw notFound;
    },
  };
}

/** An unknown GET is 404 here, an unknown POST 405: the frontend's files are served for every GET. */
function isNoRoute(error: unknown): boolean {
  return error instanceof UpstreamError && (error.status === 404 || error.status === 405);
}
