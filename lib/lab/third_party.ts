import type { Timer } from "../model/ports.ts";
import type { Bytes } from "../model/units.ts";
import type { Ground } from "./ground.ts";
import type { Span } from "./timing.ts";

/** What a speech-to-text relay was seen to hold for three days. */
const RELAY_BYTES = 842e6;

export interface Restlessness {
  /** Time between two moves. */
  readonly everyMs: Span;
  /** What it takes or gives back each time. */
  readonly bytes: readonly [low: Bytes, high: Bytes];
  /** What it holds at most beside its base. */
  readonly mostBytes: Bytes;
}

const CALM: Restlessness = { everyMs: [4_000, 12_000], bytes: [20e6, 180e6], mostBytes: 500e6 };

/** A third program on the card that nobody can ask to yield: holds its base, and takes and gives back at random. */
export class ThirdParty {
  readonly pid: number;
  readonly #ground: Ground;
  #extraBytes: Bytes = 0;
  #timer: Timer | null = null;

  constructor(ground: Ground) {
    this.#ground = ground;
    const python = "/opt/stt-relay/venv/bin/python3";
    const { pid } = ground.processes.spawn({
      parentPid: 1,
      name: "stt-relay",
      args: [python, "-m", "stt_relay", "--device", "cuda"],
      exe: python,
      cwd: "/opt/stt-relay",
      cgroup: "/system.slice/stt-relay.service",
      uid: 994,
    });
    this.pid = pid;
    ground.vram.enter(pid);
    ground.vram.allocate(pid, RELAY_BYTES);
  }

  /** Allocates and frees at random from now on. */
  start(how: Restlessness = CALM): void {
    this.stop();
    const { clock, random } = this.#ground;
    const next = () => {
      this.#timer = clock.after(random.between(...how.everyMs), () => {
        this.#move(how);
        next();
      });
    };
    next();
  }

  stop(): void {
    this.#timer?.stop();
    this.#timer = null;
  }

  #move({ bytes, mostBytes }: Restlessness): void {
    const { random, vram } = this.#ground;
    const amount = random.whole(bytes[0], bytes[1]);
    const canTake = this.#extraBytes + amount <= mostBytes;
    if (canTake && (this.#extraBytes === 0 || random.next() < 0.5)) {
      if (vram.allocate(this.pid, amount)) this.#extraBytes += amount;
      return;
    }
    const given = Math.min(amount, this.#extraBytes);
    vram.free(this.pid, given);
    this.#extraBytes -= given;
  }
}
