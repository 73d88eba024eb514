/** The live connection: frames in, whole states out, reconnecting by itself for as long as the page is open. */
import { applyFrame, type Frame } from "../../../lib/operations/frames.ts";
import { FEEDS } from "../../../lib/operations/routes.ts";
import type { Stats } from "../../../lib/operations/stats.ts";
import { reasonOfSilence } from "./call.ts";

export type LinkState =
  | { readonly kind: "connecting" }
  | { readonly kind: "live" }
  | { readonly kind: "reconnecting"; readonly sinceMs: number; readonly reason: string };

export interface StreamOptions {
  /** Called for each frame, also in a hidden tab. */
  readonly onStats: (stats: Stats) => void;
  readonly onLink: (link: LinkState) => void;
}

/** Frames come once a second; this long a silence is a dead connection that nobody has noticed yet. */
const SILENCE_MS = 6_000;
const BACKOFF_MS = [500, 1_000, 2_000, 4_000, 8_000];

/** Opens the stream. Closing it ends every timer. */
export function openStream({ onStats, onLink }: StreamOptions): { close(): void } {
  let source: EventSource | null = null;
  let state: Stats | null = null;
  let attempt = 0;
  let lostAtMs: number | null = null;
  let retry: ReturnType<typeof setTimeout> | undefined;
  let watchdog: ReturnType<typeof setTimeout> | undefined;

  const connect = () => {
    clearTimeout(retry);
    source?.close();
    source = new EventSource(FEEDS.stream.path);
    // Data of these events is JSON by the server's schema; applyFrame is the only reader.
    source.addEventListener("snapshot", (event) => take({ event: "snapshot", data: JSON.parse(event.data) }));
    source.addEventListener("patch", (event) => take({ event: "patch", data: JSON.parse(event.data) }));
    source.addEventListener("error", () => lose("The connection broke"));
    listen();
  };

  const listen = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => lose(`Nothing arrived for ${SILENCE_MS / 1_000} s`), SILENCE_MS);
  };

  const take = (frame: Frame) => {
    listen();
    // A patch that overtook its snapshot has nothing to change: the snapshot that follows holds it too.
    if (frame.event === "patch" && state === null) return;
    state = applyFrame(state, frame);
    if (lostAtMs !== null || attempt > 0) [lostAtMs, attempt] = [null, 0];
    onStats(state);
    onLink({ kind: "live" });
  };

  const lose = (reason: string) => {
    source?.close();
    clearTimeout(watchdog);
    lostAtMs ??= Date.now();
    const sinceMs = lostAtMs;
    onLink({ kind: "reconnecting", sinceMs, reason });
    // EventSource hides status and body: one plain request tells a refusal from a service that is gone.
    void reasonOfSilence().then((found) => {
      if (lostAtMs === sinceMs && found !== null) onLink({ kind: "reconnecting", sinceMs, reason: found });
    });
    const base = BACKOFF_MS[Math.min(attempt, BACKOFF_MS.length - 1)] ?? 0;
    attempt += 1;
    clearTimeout(retry);
    // Jitter, so that many open pages don't come back in the same instant.
    retry = setTimeout(connect, base * (0.75 + Math.random() / 2));
  };

  const wake = () => {
    if (document.visibilityState === "visible" && lostAtMs !== null) connect();
  };

  document.addEventListener("visibilitychange", wake);
  addEventListener("online", wake);
  onLink({ kind: "connecting" });
  connect();
  return {
    close: () => {
      source?.close();
      clearTimeout(retry);
      clearTimeout(watchdog);
      document.removeEventListener("visibilitychange", wake);
      removeEventListener("online", wake);
    },
  };
}
