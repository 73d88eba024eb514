/** A benchmark of plain values. */
import { Failure } from "../../lib/model/failure.ts";
import type { Benchmark } from "../../lib/model/services.ts";

export function fakeBenchmark(note: (name: string, what: unknown) => void): Benchmark {
  return {
    run(request, call) {
      note("benchmark", request);
      if (request.models?.includes("nope") === true) {
        return Promise.reject(new Failure("not_found", 'Cannot benchmark: Ollama has no model "nope"'));
      }
      call.progress({ phase: "round trip 1 of 2: loading qwen3:14b", done: 0.25, etaMs: 12_000 });
      const leg = {
        iteration: 1,
        from: "llama3.1:8b",
        to: "qwen3:14b",
        transitionMs: 3_100.26,
        unloadMs: 141,
        loadMs: 2_900,
        tokensPerSecond: 61.237,
        residencyBeforePct: 99.96,
        class: "ram_hit",
        classBasis: "bandwidth",
        bytesPerSecond: 3.2e9,
        spilled: false,
        verdict: "RAM Cache Hit at 3.20 GB/s",
      } as const;
      const spread = {
        ...{ n: 1, min: 3_100, p25: 3_100, median: 3_100, p75: 3_100, p95: null, p99: null, max: 3_100, mean: 3_100 },
        sd: null,
      };
      return Promise.resolve({
        models: ["qwen3:14b", "llama3.1:8b"],
        iterationsAsked: request.iterations,
        iterationsDone: 0,
        hasGivenWay: true,
        legs: [leg],
        summaries: [{
          to: "qwen3:14b",
          transitionMs: spread,
          loadMs: null,
          tokensPerSecond: null,
          residencyBeforePct: null,
          classes: { ram_hit: 1 },
        }],
        transitionMs: spread,
        message: "Gave way to ComfyUI",
      });
    },
  };
}
