/**
 * The live stream beside `/api/stats`, from outside and over HTTP, on a demo whose traffic comes and goes: at any moment
 * the frames folded up to a revision give what `/api/stats` answered for it, and no frame is large.
 */
import { isDeepStrictEqual } from "node:util";
import { applyFrame, type Frame } from "../../lib/operations/frames.ts";
import { readEvents } from "../../lib/show/event_reader.ts";
import { FROM_SOURCE, RunningService } from "../e2e/running_service.ts";
import { type Bench, type Figure, median, quantile } from "../tasks/figures.ts";

const COMPARISONS = 300;
/** Asked at no round time, so that answers fall anywhere between two frames. */
const PERIOD_MS = 237;
/** Something is asked of the box once in so many comparisons. */
const STIR_EVERY = 10;
/** A frame of a revision that `/api/stats` has shown is under way already. */
const FRAME_LIMIT_MS = 20_000;

interface State {
  readonly revision: number;
}

export const bench: Bench = {
  name: "replay",
  about: `the stream's frames beside ${COMPARISONS} answers of /api/stats, on a busy demo over HTTP`,
  async measure(): Promise<readonly Figure[]> {
    const folder = await Deno.makeTempDir({ prefix: "hyperswap_replay_" });
    try {
      await using service = await RunningService.start(FROM_SOURCE, { command: "demo", folder });
      await service.until("/api/stats", () => true);
      const follower = await Follower.open(service.url);
      const { equal, differing } = await compare(service, follower);
      follower.close();
      if (differing.length > 0) console.log(`differ: ${[...new Set(differing)].join(", ")}`);
      return figuresOf(equal, follower);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  },
};

async function compare(service: RunningService, follower: Follower) {
  const stirs = [["/api/free-vram", {}], ["/api/comfy-free", {}], ["/api/request-vram", { needed_gb: 4 }]] as const;
  let [equal, stirred] = [0, 0];
  let stirring: Promise<unknown> | null = null;
  const differing: string[] = [];
  for (let n = 0; n < COMPARISONS; n++) {
    if (stirring === null && n % STIR_EVERY === 0) {
      const [path, body] = stirs[stirred++ % stirs.length] ?? stirs[0];
      // What the box makes of it is all the same: busy is an answer too.
      stirring = service.post(path, body).catch(() => null).finally(() => stirring = null);
    }
    await new Promise((resolve) => setTimeout(resolve, PERIOD_MS));
    // as: /api/stats by its schema.
    const answer = await service.get("/api/stats") as unknown as State & Record<string, unknown>;
    const folded = await follower.at(answer.revision);
    if (isDeepStrictEqual(folded, answer)) equal += 1;
    else differing.push(...Object.keys(answer).filter((key) => !isDeepStrictEqual(folded[key], answer[key])));
  }
  await stirring;
  return { equal, differing };
}

function figuresOf(equal: number, { patchBytes }: Follower): readonly Figure[] {
  const n = patchBytes.length;
  return [
    {
      name: "answers equal to the folded frames",
      value: equal,
      unit: "",
      bar: { atLeast: COMPARISONS },
      n: COMPARISONS,
    },
    { name: "patch, median", value: median(patchBytes), unit: "bytes", bar: null, n },
    { name: "patch, p95", value: quantile(patchBytes, 0.95), unit: "bytes", bar: null, n },
    { name: "patch, most", value: quantile(patchBytes, 1), unit: "bytes", bar: { atMost: 1_200 }, n },
  ];
}

/** Folds the frames as any client does, and keeps what each revision came to. */
class Follower {
  /** Of each patch, from its first byte to the blank line. */
  readonly patchBytes: number[] = [];
  readonly #states = new Map<number, Record<string, unknown>>();
  readonly #stop = new AbortController();
  #woken = Promise.withResolvers<void>();

  static async open(url: string): Promise<Follower> {
    const follower = new Follower();
    const { body } = await fetch(`${url}/api/stream`, { signal: follower.#stop.signal });
    if (body === null) throw new Error("Cannot follow the stream: it has no body");
    void follower.#read(body);
    return follower;
  }

  async #read(body: ReadableStream<Uint8Array>): Promise<void> {
    let state: (State & Record<string, unknown>) | null = null;
    try {
      for await (const { event, data } of readEvents(body)) {
        // as: the frames' own schema.
        state = applyFrame(state, { event, data: JSON.parse(data) } as Frame);
        this.#states.set(state.revision, state);
        if (event === "patch") this.patchBytes.push(frameBytes(event, data));
        this.#woken.resolve();
        this.#woken = Promise.withResolvers();
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) throw error;
    }
  }

  async at(revision: number): Promise<Record<string, unknown>> {
    const untilMs = performance.now() + FRAME_LIMIT_MS;
    for (;;) {
      const state = this.#states.get(revision);
      if (state !== undefined) return state;
      if (performance.now() > untilMs) throw new Error(`Cannot compare: no frame brought revision ${revision}`);
      await this.#woken.promise;
    }
  }

  close(): void {
    this.#stop.abort();
  }
}

/** As it stands on the wire, with an id of the usual length. */
function frameBytes(event: string, data: string): number {
  return new TextEncoder().encode(`event: ${event}\nid: 0000-00000\ndata: ${data}\n\n`).length;
}
