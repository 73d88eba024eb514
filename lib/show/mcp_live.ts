/** Which resources have changed, told from the live stream; the stream is followed only while somebody listens. */
import type { ServerEvent, ServerEventBus } from "@modelcontextprotocol/server";
import type { Clock } from "../model/ports.ts";
import type { Frame } from "../operations/frames.ts";
import { stream } from "../operations/stream.ts";
import type { Invoker } from "./invoker.ts";
import { RESOURCES } from "./mcp_resources.ts";

/** Waits between two tries to take up a stream that has ended; the last one stays. */
const BACKOFF_MS = [1_000, 2_000, 5_000, 15_000, 30_000] as const;

export interface ResourceWatchOptions {
  readonly invoker: Invoker;
  readonly clock: Clock;
}

/** The SDK's event bus over our stream: every listener is told of every resource that changed. */
export class ResourceWatch implements ServerEventBus {
  readonly #invoker: Invoker;
  readonly #clock: Clock;
  readonly #listeners = new Set<(event: ServerEvent) => void>();
  #following: AbortController | null = null;

  constructor({ invoker, clock }: ResourceWatchOptions) {
    this.#invoker = invoker;
    this.#clock = clock;
  }

  publish(event: ServerEvent): void {
    for (const listener of [...this.#listeners]) listener(event);
  }

  subscribe(listener: (event: ServerEvent) => void): () => void {
    // Twice the same function is two subscriptions.
    const entry = (event: ServerEvent) => listener(event);
    this.#listeners.add(entry);
    this.#following ??= this.#follow();
    return () => {
      this.#listeners.delete(entry);
      if (this.#listeners.size === 0) this.close();
    };
  }

  /** Stops following; who listens then hears nothing more. */
  close(): void {
    this.#following?.abort();
    this.#following = null;
  }

  #follow(): AbortController {
    const stop = new AbortController();
    void this.#keepFollowing(stop.signal);
    return stop;
  }

  async #keepFollowing(signal: AbortSignal): Promise<void> {
    let isFirst = true;
    let tries = 0;
    const onItem = (item: unknown) => {
      tries = 0;
      // The feed's schema is FrameWire, of which Frame is the import-free form.
      for (const uri of changedBy(item as Frame, isFirst)) this.publish({ kind: "resource_updated", uri });
      isFirst = false;
    };
    while (!signal.aborted) {
      await this.#invoker.follow(stream, {}, { signal, onItem });
      const pauseMs = BACKOFF_MS[Math.min(tries++, BACKOFF_MS.length - 1)] ?? 0;
      // Rejects only when nobody listens any more.
      await this.#clock.sleep(pauseMs, signal).catch(() => undefined);
    }
  }
}

/** Addresses of what a frame changed. The first whole frame is where things stand; a later one may have changed all. */
export function changedBy(frame: Frame, isFirst: boolean): readonly string[] {
  if (frame.event === "snapshot") return isFirst ? [] : RESOURCES.map(({ uri }) => uri);
  const pointers = [...Object.keys(frame.data.set ?? {}), ...Object.keys(frame.data.prepend ?? {})];
  return RESOURCES
    .filter(({ changesWith }) => changesWith.some((place) => place === "" || pointers.some((at) => meet(place, at))))
    .map(({ uri }) => uri);
}

/** Whether one of the pointers is the other or lies inside it. */
function meet(one: string, other: string): boolean {
  return one === other || one.startsWith(`${other}/`) || other.startsWith(`${one}/`);
}
