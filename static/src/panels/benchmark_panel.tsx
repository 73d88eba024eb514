import { useId, useState } from "preact/hooks";
import { type Signal, useSignal } from "@preact/signals";
import { createAction } from "../live/action.ts";
import { type Answer, start } from "../live/call.ts";
import { useDashboard } from "../live/dashboard.ts";
import { resultOf } from "../live/run_result.ts";
import { ActionNote } from "../parts/action_note.tsx";
import { duration, fixed, UNKNOWN } from "../format.ts";
import { Footprints } from "./footprints.tsx";

type Result = Answer<"benchmark">;

const MOST_ROUNDS = 50;

/** Round trips between models, measured on demand; and what each model was measured to take. */
export function BenchmarkPanel() {
  const result = useSignal<Result | null>(null);
  return (
    <section class="panel area-statistics" aria-labelledby="benchmark-title">
      <div class="panel-head">
        <h2 id="benchmark-title">Benchmark</h2>
        <span class="faint">round trips between two models, or one unloaded and reloaded</span>
      </div>
      <div class="panel-body statistics">
        <BenchmarkForm result={result} />
        <BenchmarkResult of={result.value} />
        <Footprints />
      </div>
    </section>
  );
}

function BenchmarkForm({ result }: { readonly result: Signal<Result | null> }) {
  const dashboard = useDashboard();
  const id = useId();
  const [action] = useState(createAction);
  const [rounds, setRounds] = useState(2);
  const [picked, pick] = useState<readonly string[]>(["", ""]);
  const ollama = dashboard.part.ollama.value;
  const models = (ollama?.installed_models ?? []).filter(({ is_remote }) => !is_remote);
  const isBusy = dashboard.part.comfyui.value?.executing === true;
  const isPending = action.state.value.kind === "pending";
  const submit = (event: Event) => {
    event.preventDefault();
    void action.run("Measuring: models are unloaded and loaded meanwhile", async () => {
      const named = picked.filter((name) => name !== "");
      const run = await start("benchmark", { iterations: rounds, ...(named.length === 0 ? {} : { models: named }) });
      // A run's result is the answer of its operation: this one started a benchmark.
      const answer = await resultOf(dashboard, { id: run.id, what: "The benchmark" }) as Result;
      result.value = answer;
      return { tone: answer.given_way ? "warn" : "ok", title: answer.message, detail: null };
    });
  };
  return (
    <form class="swap" onSubmit={submit}>
      {picked.map((name, at) => (
        <label key={at} class="field field-grow" for={`${id}-${at}`}>
          <span class="field-label">{at === 0 ? "Between" : "and"}</span>
          <select
            id={`${id}-${at}`}
            value={name}
            onChange={(event) => pick(picked.with(at, event.currentTarget.value))}
          >
            <option value="">{at === 0 ? "the resident one" : "the smallest other"}</option>
            {models.map((model) => <option key={model.name} value={model.name}>{model.name}</option>)}
          </select>
        </label>
      ))}
      <label class="field" for={`${id}-rounds`}>
        <span class="field-label">Round trips</span>
        <input
          id={`${id}-rounds`}
          type="number"
          min={1}
          max={MOST_ROUNDS}
          value={rounds}
          onInput={(event) => setRounds(event.currentTarget.valueAsNumber || 1)}
        />
      </label>
      <button type="submit" class="button" disabled={isPending || isBusy || ollama?.online !== true}>Measure</button>
      {isBusy && <span class="faint">ComfyUI is executing: it wants the card to itself</span>}
      <ActionNote action={action} />
    </form>
  );
}

function BenchmarkResult({ of }: { readonly of: Result | null }) {
  if (of === null) {
    return <p class="faint">Nothing measured since this page was opened. It gives way to ComfyUI at once.</p>;
  }
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">Switch to</th>
          {["n", "mean", "p50", "p95", "load", "tok/s"].map((name) => <th key={name} scope="col" class="num">{name}
          </th>)}
        </tr>
      </thead>
      <tbody>
        {of.summaries.map((one) => (
          <tr key={one.to}>
            <th scope="row">{one.to}</th>
            <td class="num">{one.transition_ms?.n ?? 0}</td>
            <td class="num">{shownMs(one.transition_ms?.mean)}</td>
            <td class="num">{shownMs(one.transition_ms?.p50)}</td>
            <td class="num" title="Takes 20 values">{shownMs(one.transition_ms?.p95)}</td>
            <td class="num">{shownMs(one.load_ms?.p50)}</td>
            <td class="num">{one.tokens_per_sec === null ? UNKNOWN : fixed(one.tokens_per_sec.p50, 1)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

function shownMs(ms: number | null | undefined): string {
  return ms === null || ms === undefined ? UNKNOWN : duration(ms);
}
