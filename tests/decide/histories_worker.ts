/** Plays a share of the histories in a thread of its own. */
import { playHistories } from "./histories.ts";

self.onmessage = ({ data }: MessageEvent<{ runs: number; seed: number }>) => {
  try {
    self.postMessage({ counts: playHistories(data) });
  } catch (error) {
    self.postMessage({ failure: told(error) });
  }
  self.close();
};

/** The broken promise itself is the cause; what is thrown tells only how to play it again. */
function told(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause instanceof Error ? `\n${error.cause.stack ?? error.cause.message}` : "";
  return `${error.stack ?? error.message}${cause}`;
}
