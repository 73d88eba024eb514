/** What arbitration can't settle by itself: stuck runners, insisters, a dead worker, refusals too short to be seen. */
import type { ArbitrationView } from "../model/arbitration.ts";
import type { Sample } from "../model/sample.ts";
import type { HealthCheck } from "../model/services.ts";
import { toGib } from "../model/units.ts";

export function checkArbitration(view: ArbitrationView, sample: Sample): readonly HealthCheck[] {
  return [checkRefusals(sample), checkStuck(view), checkInsisters(view), checkComfyWorker(view, sample)];
}

const fine = (name: string, finding: string): HealthCheck => ({
  name,
  state: "ok",
  finding,
  breaks: null,
  remedy: null,
});

/** Others' refusals are seen by their runners alone, and those are looked for four times a second. */
function checkRefusals({ ollama, sources }: Sample): HealthCheck {
  const name = "others_refusals";
  if (!ollama.online || ollama.isRemote) {
    return { ...fine(name, "There is no Ollama on this box whose children could be watched"), state: "not_applicable" };
  }
  if (ollama.server === null || !sources.processes.ok) {
    return {
      name,
      state: "degraded",
      finding: "Ollama's children can't be seen",
      breaks: "A load that another client is refused stays unseen, so nothing is reclaimed for its next try",
      remedy: "Run HyperSwap as root, or with CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
    };
  }
  return fine(name, "Ollama's children are read 4 times a second; a load that is refused sooner stays unseen");
}

function checkStuck({ stuck = [] }: ArbitrationView): HealthCheck {
  const [first] = stuck;
  if (first === undefined) return fine("stuck_runners", "No runner holds memory without working");
  const who = stuck.map(({ pid, model, bytes }) =>
    `pid ${pid} (${model ?? "model unknown"}, ${toGib(bytes) ?? "unknown"} GB)`
  );
  return {
    name: "stuck_runners",
    state: "degraded",
    finding: `${who.join(", ")}: ${first.evidence}`,
    breaks: "Its memory can't be given to anybody else",
    remedy: `Restart Ollama, or end it alone: hyperswap runner end ${first.pid} ${first.startTime} ` +
      "(with arbitration.end_stuck_runners = true)",
  };
}

function checkInsisters({ insisters = [] }: ArbitrationView): HealthCheck {
  const [first] = insisters;
  if (first === undefined) return fine("insisters", "No model came back before ComfyUI had taken its memory");
  const who = insisters.map(({ model, times }) => `${model} (${times} ${times === 1 ? "time" : "times"})`);
  return {
    name: "insisters",
    state: "degraded",
    finding: `Came back within the last minute though the card was ComfyUI's: ${who.join(", ")}`,
    breaks: "ComfyUI may find too little free memory, and load only part of a model",
    remedy: `Pause whoever uses ${first.model}, keep it (arbitration.keep), or let its clients go through the gate`,
  };
}

function checkComfyWorker({ comfyWorker = null }: ArbitrationView, { comfy }: Sample): HealthCheck {
  const name = "comfyui_worker";
  if (!comfy.online) return { ...fine(name, "ComfyUI is not running"), state: "not_applicable" };
  if (comfyWorker === null) return fine(name, "No prompt is listed as running that does nothing");
  return {
    name,
    state: "degraded",
    finding: `Prompt ${comfyWorker.promptId} has neither computed nor used the card for ` +
      `${Math.round(comfyWorker.stillMs / 1_000)} s: ComfyUI's worker may be dead while its server answers`,
    breaks: "Prompts behind it never run, and ComfyUI counts as executing: it is neither purged nor yielded to again",
    remedy: "Interrupt it in ComfyUI; if it is still listed as running after that, restart ComfyUI",
  };
}
