/** A gate between raw sockets: a client that sends what it likes, an upstream that answers what it likes. */
import type { Admission, AdmissionRequest, GateOutcome, RetryVerdict, Verdict } from "../../lib/model/admission.ts";
import { type GateOptions, openGate } from "../../lib/gate/gate.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import type { Log } from "../../lib/model/ports.ts";
import type { Tenant } from "../../lib/model/tenants.ts";
import { inTime } from "./in_time.ts";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** One end of a connection that is read on all the time. */
export class Wire {
  readonly conn: Deno.Conn;
  received = "";
  bytes = 0;
  end: "open" | "closed" | "reset" = "open";
  #changed = Promise.withResolvers<void>();
  readonly #keeps: boolean;

  constructor(conn: Deno.Conn, { keeps = true }: { readonly keeps?: boolean } = {}) {
    this.conn = conn;
    this.#keeps = keeps;
    void this.#read();
  }

  async #read(): Promise<void> {
    const buffer = new Uint8Array(this.#keeps ? 8_192 : 65_536);
    try {
      for (let count = await this.conn.read(buffer); count !== null; count = await this.conn.read(buffer)) {
        this.bytes += count;
        if (this.#keeps) this.received += decoder.decode(buffer.subarray(0, count), { stream: true });
        this.#change();
      }
      this.end = "closed";
    } catch {
      this.end = "reset";
    }
    this.#change();
  }

  #change(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async until(holds: (wire: Wire) => boolean, what = String(holds)): Promise<void> {
    const state = () => `${what}; ${this.bytes} bytes came, ${this.end}: ${JSON.stringify(this.received.slice(-500))}`;
    while (!holds(this)) await inTime(this.#changed.promise, state);
  }

  /** Resolves once the text has come; fails when the connection ends without it. */
  async see(text: string): Promise<string> {
    await this.until(
      (wire) => wire.received.includes(text) || wire.end !== "open",
      `to see ${JSON.stringify(text.slice(0, 200))}`,
    );
    if (!this.received.includes(text)) {
      throw new Error(`No ${JSON.stringify(text)} in ${JSON.stringify(this.received)}`);
    }
    return this.received;
  }

  async ended(): Promise<string> {
    await this.until(({ end }) => end !== "open", "for the connection's end");
    return this.received;
  }

  async send(text: string | Uint8Array): Promise<void> {
    const bytes = typeof text === "string" ? encoder.encode(text) : text;
    for (let at = 0; at < bytes.length;) {
      at += await inTime(this.conn.write(bytes.subarray(at)), () => `to send byte ${at} of ${bytes.length}`);
    }
  }

  close(): void {
    try {
      this.conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** A server whose connections a scene answers by hand. */
export class Upstream implements AsyncDisposable {
  readonly port: number;
  readonly wires: Wire[] = [];
  #listener: Deno.TcpListener;
  #serving: Promise<void>;
  #came = Promise.withResolvers<void>();
  readonly #answer: (wire: Wire) => Promise<void> | void;

  constructor(answer: (wire: Wire) => Promise<void> | void = () => {}) {
    this.#answer = answer;
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.port = this.#listener.addr.port;
    this.#serving = this.#serve();
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** What all its connections got, in the order they came. */
  get received(): readonly string[] {
    return this.wires.map(({ received }) => received);
  }

  async #serve(): Promise<void> {
    for await (const conn of this.#listener) {
      const wire = new Wire(conn);
      this.wires.push(wire);
      this.#came.resolve();
      this.#came = Promise.withResolvers();
      await this.#answer(wire);
    }
  }

  async wire(at: number): Promise<Wire> {
    for (;;) {
      const wire = this.wires[at];
      if (wire !== undefined) return wire;
      await inTime(this.#came.promise, () => `for connection ${at} to the upstream, which has ${this.wires.length}`);
    }
  }

  /** As a crash does. */
  async stop(): Promise<void> {
    this.#listener.close();
    await this.#serving;
    for (const wire of this.wires) wire.close();
  }

  /** On the same port. */
  start(): void {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: this.port });
    this.#serving = this.#serve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop().catch((error) => {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    });
  }
}

/** An offer that a scene decides about. */
export interface Offer {
  readonly request: AdmissionRequest;
  readonly signal: AbortSignal;
  readonly outcomes: GateOutcome[];
  readonly refusals: string[];
  taken: number;
  say(note: string): void;
  pass(how?: Partial<Extract<Verdict, { kind: "pass" }>>): void;
  decide(verdict: Verdict): void;
}

/** Admission by hand: each offer waits until the scene decides, unless `isOpen` lets all pass at once. */
export class HandAdmission implements Admission {
  readonly offers: Offer[] = [];
  isOpen = false;
  retry: RetryVerdict = { kind: "give_up", reason: "nothing to reclaim" };
  #came = Promise.withResolvers<void>();

  offer(
    request: AdmissionRequest,
    { signal, held }: { signal: AbortSignal; held?: (note: { reason: string; position: number }) => void },
  ): Promise<Verdict> {
    const { promise, resolve } = Promise.withResolvers<Verdict>();
    const outcomes: GateOutcome[] = [];
    const refusals: string[] = [];
    const offer: Offer = {
      request,
      signal,
      outcomes,
      refusals,
      taken: 0,
      say: (reason) => held?.({ reason, position: 0 }),
      decide: resolve,
      pass: (how = {}) =>
        resolve({
          kind: "pass",
          heldMs: 0,
          reason: "free",
          isOpen: false,
          message: "",
          ...how,
          ticket: {
            take: () => {
              if (signal.aborted) return false;
              offer.taken += 1;
              return true;
            },
            outOfMemory: (message) => {
              refusals.push(message);
              const verdict = refusals.length > 1 ? { kind: "give_up", reason: "once" } as const : this.retry;
              return Promise.resolve(verdict);
            },
            ended: (outcome) => outcomes.push(outcome),
          },
        }),
    };
    signal.addEventListener("abort", () => resolve({ kind: "lapsed" }), { once: true });
    this.offers.push(offer);
    this.#came.resolve();
    this.#came = Promise.withResolvers();
    if (this.isOpen) offer.pass();
    return promise;
  }

  async next(at: number): Promise<Offer> {
    for (;;) {
      const offer = this.offers[at];
      if (offer !== undefined) return offer;
      await inTime(this.#came.promise, () => `for offer ${at}; ${this.offers.length} came`);
    }
  }
}

export interface Scene extends AsyncDisposable {
  readonly clock: LabClock;
  readonly admission: HandAdmission;
  readonly upstream: Upstream;
  readonly url: string;
  readonly port: number;
  readonly defects: unknown[];
  readonly gate: Awaited<ReturnType<typeof openGate>>;
  client(): Promise<Wire>;
}

/** A gate before one upstream. Ends by looking that it found no defect in itself. */
export async function openScene(
  { tenant = "ollama", answer, ...options }: {
    readonly tenant?: Tenant;
    readonly answer?: (wire: Wire) => Promise<void> | void;
  } & Partial<Pick<GateOptions, "admission" | "clock">> = {},
): Promise<Scene> {
  const clock = new LabClock();
  const admission = new HandAdmission();
  const upstream = new Upstream(answer);
  const defects: unknown[] = [];
  const log: Log = { debug() {}, info() {}, warn() {}, error: (message, fields) => defects.push({ message, fields }) };
  const side = { listen: "127.0.0.1:0", url: upstream.url };
  const sides = { ollama: tenant === "ollama" ? side : null, comfyui: tenant === "comfyui" ? side : null };
  const gate = await openGate({ ...sides, admission, clock, log, ...options });
  const url = gate.urls[tenant] ?? "";
  const port = Number(new URL(url).port);
  const wires: Wire[] = [];
  return {
    clock,
    admission,
    upstream,
    url,
    port,
    defects,
    gate,
    async client() {
      const wire = new Wire(await Deno.connect({ hostname: "127.0.0.1", port }));
      wires.push(wire);
      return wire;
    },
    async [Symbol.asyncDispose]() {
      for (const wire of wires) wire.close();
      await inTime(gate.close(AbortSignal.abort()), () => "for the gate to close");
      await upstream[Symbol.asyncDispose]();
      if (defects.length > 0) throw new Error(`Defects: ${JSON.stringify(defects)}`);
    },
  };
}

/** A request as text; a body gets its length. */
export function requestText(line: string, { headers = [], body }: {
  readonly headers?: readonly string[];
  readonly body?: string;
} = {}): string {
  const length = body === undefined ? [] : [`Content-Length: ${encoder.encode(body).length}`];
  return [`${line} HTTP/1.1`, "Host: 127.0.0.1:11435", ...headers, ...length, "", body ?? ""].join("\r\n");
}

/** A plain answer. */
export function answerText(body: string, { status = "200 OK", headers = [] }: {
  readonly status?: string;
  readonly headers?: readonly string[];
} = {}): string {
  return [`HTTP/1.1 ${status}`, ...headers, `Content-Length: ${encoder.encode(body).length}`, "", body].join("\r\n");
}
