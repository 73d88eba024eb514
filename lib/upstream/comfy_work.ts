import type { Clock, ComfyImage } from "../model/ports.ts";
import { httpOrigin } from "./http.ts";
import { filledField, parseRecord } from "./json_fields.ts";

export type ComfyGraph = Readonly<Record<string, { readonly class_type: string; readonly inputs: object }>>;

/** Work of our own in ComfyUI. */
export interface ComfyWorkApi {
  /** Queues a graph under that id, and returns the id the server gave it: old ones choose their own. */
  post(request: { readonly promptId: string; readonly graph: ComfyGraph }, signal: AbortSignal): Promise<string>;
  /** Bytes of a finished picture; null where it can't be had. */
  pictureBytes(image: ComfyImage, signal: AbortSignal): Promise<number | null>;
}

const DEADLINE_MS = 10_000;
const PICTURE_LIMIT_BYTES = 64 * 2 ** 20;

export function connectComfyWork(options: { readonly url: string; readonly clock: Clock }): ComfyWorkApi {
  const origin = httpOrigin(options);
  return {
    // Without a client id its progress goes to every listener, and so to the one that we have already.
    post: ({ promptId, graph }, signal) =>
      origin.ask({
        method: "POST",
        path: "/prompt",
        body: { prompt: graph, prompt_id: promptId },
        deadlineMs: DEADLINE_MS,
        action: "queue a prompt in ComfyUI",
        signal,
      }, (text) => filledField(parseRecord(text), "prompt_id") ?? promptId),
    async pictureBytes({ filename, subfolder, type }, signal) {
      const query = new URLSearchParams({ filename, subfolder, type });
      try {
        return await origin.ask({
          method: "GET",
          path: `/view?${query}`,
          deadlineMs: DEADLINE_MS,
          maxBytes: PICTURE_LIMIT_BYTES,
          action: "look at a finished picture",
          signal,
        }, (text) => text.length);
      } catch {
        // It tells more of the run where it is there; where it isn't, the run counts all the same.
        signal.throwIfAborted();
        return null;
      }
    },
  };
}
