/** Plays a share of the histories in a thread of its own. */
import { playHistories } from "./histories.ts";

self.onmessage = ({ data }: MessageEvent<{ runs: number; seed: number }>) => {
  try {
    self.postMessage({ counts: playHistories(data) });
  } catch (error) {
    self.postMessage({ failure: error instanceof Error ? error.stack ?? error.message : String(error) });
  }
  self.close();
};
