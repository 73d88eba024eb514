import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { ComfyCompletion } from "../../lib/model/ports.ts";
import { type ComfyWatch, watchComfy } from "../../lib/sample/comfy_watch.ts";
import { FakeComfy, FakeSocket } from "./fake_comfy.ts";

/** A watcher between a fake server and a fake socket, with what it told. */
export interface WatchedComfy extends AsyncDisposable {
  readonly clock: LabClock;
  readonly server: FakeComfy;
  readonly socket: FakeSocket;
  readonly watch: ComfyWatch;
  /** Counts in the order they were announced. */
  readonly activity: number[];
  readonly completed: ComfyCompletion[];
}

/** Starts one. `isOpen`: the socket has connected and greeted, the first reads are done. */
export async function watchFakeComfy({ isOpen = true, prepare }: {
  readonly isOpen?: boolean;
  readonly prepare?: (server: FakeComfy) => void;
} = {}): Promise<WatchedComfy> {
  const clock = new LabClock();
  const server = new FakeComfy();
  prepare?.(server);
  const activity: number[] = [];
  const completed: ComfyCompletion[] = [];
  let socket: FakeSocket | null = null;
  const watch = watchComfy({
    api: server,
    clock,
    onActivity: ({ queueRemaining }) => activity.push(queueRemaining),
    onCompleted: (completion) => completed.push(completion),
    openSocket: (options) => socket = new FakeSocket(options),
  });
  if (socket === null) throw new Error("Cannot watch: no socket was opened");
  const opened: FakeSocket = socket;
  await clock.settle();
  if (isOpen) {
    opened.become("open");
    opened.status(server.queued.length, "sid-1");
    await clock.advance(200);
  }
  return {
    clock,
    server,
    socket: opened,
    watch,
    activity,
    completed,
    async [Symbol.asyncDispose]() {
      watch.stop();
      await clock.settle();
    },
  };
}
