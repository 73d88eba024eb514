/** A box of plain values: Services that answer what a test has put in, and note what they were asked. */
import type { EndRunnerResult, PurgeResult, SwitchResult, YieldResult } from "../../lib/model/arbitration.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { HistoryQuery } from "../../lib/model/history.ts";
import type { Arbitration, CallOptions, History, Services, Snapshot } from "../../lib/model/services.ts";
import { GIB } from "../../lib/model/units.ts";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { createLogins } from "../../lib/services/logins.ts";
import { createRuns } from "../../lib/services/runs.ts";
import type { RunKeeper } from "../../lib/services/runs.ts";
import { fakeAutotune } from "./fake_autotune.ts";
import { fakeAnalytics } from "./fake_analytics.ts";
import { fakeBenchmark } from "./fake_benchmark.ts";
import { fakeCache } from "./fake_cache.ts";
import { fakePlanner } from "./fake_planner.ts";
import { fakeCard } from "./fake_card.ts";
import {
  ARBITRATION,
  endRunnerResult,
  GB16,
  HISTORY,
  MODELS,
  purgeResult,
  sample,
  switchResult,
  yieldResult,
} from "./fake_values.ts";

/** What the next calls answer or throw. */
export interface Answers {
  yieldVram: (call: CallOptions) => Promise<YieldResult>;
  endRunner: (call: CallOptions) => Promise<EndRunnerResult>;
  purge: (call: CallOptions) => Promise<PurgeResult>;
  switchModel: (call: CallOptions) => Promise<SwitchResult>;
  /** Whether the room that is asked for is there at the end; null: nobody can tell. */
  fits: boolean | null;
}

export interface FakeBox {
  readonly services: Services;
  readonly clock: LabClock;
  readonly runs: RunKeeper;
  /** What was asked, oldest first: `yieldVram {"models":null,…}`. */
  readonly asked: string[];
  /** Errors that were reported as defects. */
  readonly defects: unknown[];
  readonly answers: Answers;
  readonly subscribers: number;
  /** Reports as the service does, with ids that count up. */
  report(error: unknown): string;
  /** Replaces what the box shows and tells every subscriber. */
  show(change: Partial<Snapshot>): void;
}

/** A box whose services are all here; a blank one has no sample yet. */
export function fakeBox(options: { readonly simulation?: string | null; readonly isBlank?: boolean } = {}): FakeBox {
  const { simulation = null } = options;
  const clock = new LabClock();
  const defects: unknown[] = [];
  const asked: string[] = [];
  const note = (name: string, what: unknown) => void asked.push(`${name} ${JSON.stringify(what)}`);
  const runs = createRuns({ clock, onDefect: (error) => defects.push(error) });
  const screen = new Screen(simulation, options.isBlank ?? false);
  const answers: Answers = {
    yieldVram: () => Promise.resolve(yieldResult()),
    endRunner: () => Promise.resolve(endRunnerResult()),
    purge: () => Promise.resolve(purgeResult()),
    switchModel: () => Promise.resolve(switchResult()),
    fits: true,
  };
  return {
    clock,
    runs,
    asked,
    defects,
    answers,
    get subscribers() {
      return screen.listeners.size;
    },
    report: (error) => `e${defects.push(error)}`,
    show: (change) => screen.show(change),
    services: {
      about: { version: "0.1.0", pid: 77, startedAtMs: Date.UTC(2026, 0, 1, 11), simulation },
      logins: createLogins(clock),
      planner: fakePlanner(note),
      arbitration: fakeArbitration({ screen, answers, note }),
      live: screen,
      history: fakeHistory(note),
      runs,
      health: {
        report: () => ({
          state: "degraded",
          checks: [{
            name: "nvml",
            state: "degraded",
            finding: "no fans",
            breaks: "fan control",
            remedy: "none needed",
          }],
        }),
      },
      models: { list: () => Promise.resolve(MODELS) },
      cache: fakeCache(note),
      analytics: fakeAnalytics(note),
      benchmark: fakeBenchmark(note),
      card: fakeCard(note),
      autotune: fakeAutotune(note),
    },
  };
}

/** What is shown, and who looks. */
class Screen {
  readonly listeners = new Set<(snapshot: Snapshot) => void>();
  current: Snapshot;
  #isBlank: boolean;

  constructor(simulation: string | null, isBlank: boolean) {
    this.#isBlank = isBlank;
    this.current = {
      revision: 1,
      sample: sample({ simulated: simulation !== null }),
      arbitration: ARBITRATION,
      history: HISTORY,
      runs: [],
      simulation,
    };
  }

  show(change: Partial<Snapshot>): void {
    this.#isBlank = false;
    this.current = { ...this.current, ...change, revision: this.current.revision + 1 };
    for (const listener of [...this.listeners]) listener(this.current);
  }

  snapshot(): Snapshot {
    if (!this.#isBlank) return this.current;
    throw new Failure("unavailable", "Cannot show the box yet: no sample has been taken");
  }

  subscribe(onSnapshot: (snapshot: Snapshot) => void) {
    this.listeners.add(onSnapshot);
    return { stop: () => void this.listeners.delete(onSnapshot) };
  }
}

type Note = (name: string, what: unknown) => void;

function fakeArbitration(parts: { screen: Screen; answers: Answers; note: Note }): Arbitration {
  const { screen, answers, note } = parts;
  return {
    view: () => screen.current.arbitration,
    set(change) {
      note("set", change);
      const { keep } = screen.current.arbitration;
      screen.current = {
        ...screen.current,
        arbitration: { ...screen.current.arbitration, ...change, keep: change.keep ?? keep },
      };
      return screen.current.arbitration;
    },
    endRunner(request, call) {
      note("endRunner", request);
      return answers.endRunner(call);
    },
    yieldVram(request, call) {
      note("yieldVram", request);
      return answers.yieldVram(call);
    },
    purge(request, call) {
      note("purge", request);
      return answers.purge(call);
    },
    requestVram(request) {
      note("requestVram", request);
      return request.neededBytes > GB16 ? Promise.reject(wontFit()) : Promise.resolve({
        hadBytes: 3.5 * GIB,
        neededBytes: request.neededBytes,
        reclaimedBytes: 0,
        freeBytes: 3.5 * GIB,
        fits: answers.fits,
        purge: null,
        holders: [{ bucket: "unmanaged", bytes: 0.5 * GIB, who: ["pid 4003 whisper 0.5 GiB"] }],
        message: "It fits",
      });
    },
    switchModel(request, call) {
      note("switchModel", request);
      return request.model === "nope" ? Promise.reject(unknownModel()) : answers.switchModel(call);
    },
    why({ id }) {
      if (id !== null && id !== 1) throw new Failure("not_found", `Cannot find decision ${id}`);
      return [{
        id: 1,
        atMs: Date.UTC(2026, 0, 1, 11, 59),
        event: "ComfyUI enqueued",
        before: "idle",
        after: "yielding",
        effects: ["unload qwen3:14b"],
        reason: "ComfyUI needs 6 GiB, 3.5 GiB are free",
      }];
    },
  };
}

function wontFit(): Failure {
  return new Failure("wont_fit", "Cannot make room for 20 GiB: the card has 16 GiB", {
    hint: "unmanaged holds 0.5 GiB: pid 4003 whisper",
    details: { unmanaged_gb: 0.5 },
  });
}

function unknownModel(): Failure {
  return new Failure("not_found", 'Cannot find the model "nope"', { hint: "hyperswap models lists what is installed" });
}

function fakeHistory(note: Note): History {
  return {
    list(query: HistoryQuery) {
      note("history", query);
      const found = HISTORY.filter(({ kind }) => query.kind === null || kind === query.kind);
      return Promise.resolve(found.slice(0, query.limit));
    },
    status: () =>
      Promise.resolve({
        path: "/var/lib/hyperswap/record.db",
        sizeBytes: 4096,
        rows: { events: 2 },
        hoursHeld: 1.234,
        lastFlushAtMs: null,
        error: null,
        schemaVersion: 1,
      }),
  };
}
