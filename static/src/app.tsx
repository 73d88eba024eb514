/** The page's entry point: state first, then the view. */
import { render } from "preact";
import { createDashboard, DashboardProvider } from "./live/dashboard.ts";
import { AutotunePanel } from "./panels/autotune_panel.tsx";
import { BenchmarkPanel } from "./panels/benchmark_panel.tsx";
import { CachePanel } from "./panels/cache_panel.tsx";
import { ChartPanel } from "./panels/chart_panel.tsx";
import { ComfyCard } from "./panels/comfy_card.tsx";
import { GatePanel } from "./panels/gate_panel.tsx";
import { GpuCard } from "./panels/gpu_card.tsx";
import { Header } from "./panels/header.tsx";
import { MemoryPanel } from "./panels/memory_panel.tsx";
import { OllamaCard } from "./panels/ollama_card.tsx";
import { PastPanel } from "./panels/past_panel.tsx";
import { RunsPanel } from "./panels/runs_panel.tsx";
import { StatisticsPanel } from "./panels/statistics_panel.tsx";
import { TimelinePanel } from "./panels/timeline_panel.tsx";
import { TuningPanel } from "./panels/tuning_panel.tsx";
import { WhyPanel } from "./panels/why_panel.tsx";
import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/layout.css";
import "./styles/parts.css";
import "./styles/controls.css";
import "./styles/notes.css";
import "./styles/header.css";
import "./styles/memory.css";
import "./styles/cards.css";
import "./styles/cache.css";
import "./styles/timeline.css";
import "./styles/past.css";
import "./styles/gate.css";
import "./styles/tuning.css";
import "./styles/autotune.css";
import "./styles/dialogs.css";

function App() {
  return (
    <>
      <a class="skip" href="#main">Skip to the instruments</a>
      <Header />
      <main id="main" class="page" tabIndex={-1}>
        <MemoryPanel />
        <div class="column rail area-rail">
          <OllamaCard />
          <ComfyCard />
          <RunsPanel />
          <GatePanel />
          <GpuCard />
        </div>
        <ChartPanel />
        <TimelinePanel />
        <CachePanel />
        <TuningPanel />
        <PastPanel />
        <StatisticsPanel />
        <AutotunePanel />
        <BenchmarkPanel />
      </main>
      <WhyPanel />
    </>
  );
}

const root = document.getElementById("app");
if (root === null) throw new TypeError("Cannot find #app in the page");
render(
  <DashboardProvider value={createDashboard()}>
    <App />
  </DashboardProvider>,
  root,
);
