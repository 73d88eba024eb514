/** The whole service on a stub card, killed at moments drawn from a seed: what `restore` or the next start make of it. */
import { mulberry } from "../act/mulberry.ts";
import { openStub, type Stub } from "../stub/compile_stub.ts";
import { STUB_STOCK, StubCard } from "../stub/stub_card.ts";
import { freePort, FROM_SOURCE, type Program, RunningService, runToEnd, socketIn } from "./running_service.ts";

/** What another tool had set, which nothing of ours touches. */
const OTHERS_OFFSET = 77;
/** °C beyond the stub's threshold, and far below it. */
const HOT_C = 95;
const COOL_C = 48;

/** Who puts the card back. */
export type Rescue = "restore" | "start";

export interface ServiceKill {
  readonly by: Rescue;
  /** Off stock when the process was gone. */
  readonly foundChanged: boolean;
  /** Off stock after the rescue. */
  readonly leftChanged: boolean;
  /** A lever that we never touched has moved, or its setter was called. */
  readonly untouchedMoved: boolean;
  /** Something had been changed, and the next start doesn't say so. */
  readonly untold: boolean;
}

export interface StubServiceOptions {
  readonly program?: Program;
  /** Default: nobody is there. */
  readonly comfyUrl?: string;
}

export class StubService implements AsyncDisposable {
  readonly card: StubCard;
  readonly folder: string;
  readonly #stub: Stub;
  readonly #program: Program;
  readonly #flags: readonly string[];
  #service: RunningService | null = null;

  static async open(options: StubServiceOptions = {}): Promise<StubService> {
    const folder = await Deno.makeTempDir({ prefix: "stub-service-" });
    return new StubService(await openStub("full"), { ...options, folder });
  }

  private constructor(stub: Stub, { folder, program, comfyUrl }: StubServiceOptions & { readonly folder: string }) {
    this.#stub = stub;
    this.folder = folder;
    this.#program = program ?? FROM_SOURCE;
    this.card = new StubCard(stub.path);
    // Slow setters: many kills fall between a journal's line and the change, or between two levers.
    this.card.write({ setterLagMs: 1, coreOffset: OTHERS_OFFSET });
    const config = `${folder}/hyperswap.toml`;
    Deno.writeTextFileSync(
      config,
      [
        '[access]\nloopback = ["read", "operate", "tune"]',
        "[governor]\nbad_samples = 1\ngood_samples = 1",
        // A prompt that a killed sweep left in ComfyUI is work like any other: a profile would follow it.
        "[profiles]\nautomatic = false",
      ].join("\n"),
    );
    const nobody = () => `http://127.0.0.1:${freePort()}`;
    this.#flags = [
      ...["--config", config, "--nvml", stub.path],
      ...["--ollama-url", nobody(), "--comfyui-url", comfyUrl ?? nobody()],
    ];
  }

  /** The service as it runs now. */
  get service(): RunningService {
    if (this.#service === null) throw new Error("The service doesn't run");
    return this.#service;
  }

  /** Where a command finds the same card and journal, with or without the service. */
  get #env(): Readonly<Record<string, string>> {
    return {
      STUB_UUID_TAIL: `-${this.folder.slice(-8)}`,
      HYPERSWAP_SERVER_STATE_DIR: `${this.folder}/state`,
      HYPERSWAP_SERVER_SOCKET: socketIn(this.folder),
      // Nobody listens there.
      HYPERSWAP_SERVER_PORT: "1",
      HYPERSWAP_GPU_NVML: this.#stub.path,
    };
  }

  /** Starts it, and waits until it has the card. */
  async start(): Promise<RunningService> {
    this.#service = await RunningService.start(this.#program, {
      command: "serve",
      folder: this.folder,
      flags: this.#flags,
      env: this.#env,
    });
    await this.#service.until("/api/overclock", ({ available }) => available === true);
    return this.#service;
  }

  /** SIGKILL, in whatever it is at. `pid`: asked for beforehand, so that nothing is asked at the moment itself. */
  async kill(pid: number): Promise<void> {
    Deno.kill(pid, "SIGKILL");
    await this.#service?.[Symbol.asyncDispose]();
    this.#service = null;
  }

  /** What the unit's ExecStopPost runs; what it says. */
  async restore(): Promise<string> {
    const args = ["restore", "--scope", "journal", "--json"];
    const { code, stdout, stderr } = await runToEnd(this.#program, args, { env: this.#env });
    if (code !== 0) throw new Error(`restore ended with ${code}: ${stderr}`);
    return JSON.parse(stdout).message;
  }

  get isStock(): boolean {
    return JSON.stringify(this.card.levers()) === JSON.stringify({ ...STUB_STOCK, coreOffset: OTHERS_OFFSET });
  }

  get isUntouchedMoved(): boolean {
    return this.card.levers().coreOffset !== OTHERS_OFFSET || this.card.calls("core_offset_mhz") !== 0;
  }

  /** Sets the card by profiles, fans, levers and heat until the moment has come, and kills. */
  async killAt(seed: number): Promise<void> {
    const random = mulberry(seed);
    const pid = await this.service.pid();
    await this.#drive(random, 1 + Math.floor(random() * 12));
    await new Promise((resolve) => setTimeout(resolve, random() * 25));
    await this.kill(pid);
    this.card.write({ temperature: COOL_C });
  }

  /** Killed and rescued: the service runs again. */
  async round(seed: number, by: Rescue): Promise<ServiceKill> {
    const before = await this.#lastEvent();
    await this.killAt(seed);
    const foundChanged = !this.isStock;
    if (by === "restore") await this.restore();
    const isBack = by === "start" || this.isStock;
    await this.start();
    return {
      by,
      foundChanged,
      leftChanged: !isBack || !this.isStock,
      untouchedMoved: this.isUntouchedMoved,
      untold: foundChanged && !await this.#isTold(before),
    };
  }

  /** `answers` requests one after the other, and one more that is left under way. */
  async #drive(random: () => number, answers: number): Promise<void> {
    this.card.write({ temperature: random() < 0.4 ? HOT_C : COOL_C });
    for (let left = answers; left > 0; left -= 1) await this.#ask(random());
    this.#ask(random()).catch(() => {});
  }

  async #ask(draw: number): Promise<void> {
    const pick = Math.floor(draw * ASKED.length);
    const [path, body] = ASKED[pick] ?? ASKED[0];
    await this.service.post(path, body);
  }

  async #lastEvent(): Promise<number> {
    const { events } = await this.service.get("/api/history?limit=1");
    return (events as readonly { id: number }[])[0]?.id ?? 0; // by its schema
  }

  /** Whether the start after an unclean end says so: it is recorded a moment after the card is there. */
  async #isTold(before: number): Promise<boolean> {
    const causes = new Set<unknown>(["quarantine", "unclean_end"]);
    const isTelling = ({ events }: Record<string, unknown>) =>
      (events as readonly { id: number; cause?: unknown }[]) // by its schema
        .some(({ id, cause }) => id > before && causes.has(cause));
    return await this.service.until("/api/history?limit=20", isTelling).then(() => true, () => false);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#service?.[Symbol.asyncDispose]();
    this.#stub[Symbol.dispose]();
    await Deno.remove(this.folder, { recursive: true });
  }
}

type Ask = readonly [path: string, body: Readonly<Record<string, unknown>>];

const ASKED: readonly [Ask, ...Ask[]] = [
  ["/api/overclock/apply", { profile: "comfy" }],
  ["/api/overclock/apply", { profile: "comfy" }],
  ["/api/overclock/apply", { profile: "balanced" }],
  ["/api/gpu/fan", { mode: "manual", percent: 60 }],
  ["/api/gpu/fan", { mode: "manual", percent: 85 }],
  ["/api/gpu/fan", { mode: "auto" }],
  ["/api/overclock/lever", { lever: "power_limit_w", value: 300, confirm_within_s: 60 }],
  ["/api/overclock/lever", { lever: "lock_core_mhz", value: 2_400 }],
  ["/api/overclock/lever", { lever: "mem_offset_mhz", value: 300 }],
  ["/api/governor", { reset: true }],
];
