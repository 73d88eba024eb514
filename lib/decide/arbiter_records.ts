/** How results go into history, in the names that stay (OPERATIONS.md). */
import {
  causeWord,
  type EndRunnerResult,
  type PurgeResult,
  type SwitchResult,
  type YieldResult,
} from "../model/arbitration.ts";
import type { NewHistoryItem } from "../model/history.ts";
import { round, toGib } from "../model/units.ts";
import { isNarrow, linkRate } from "./classify.ts";

type Recorded = Omit<NewHistoryItem, "atMs">;

export function yieldRecord(result: YieldResult): Recorded {
  return {
    kind: result.outcome === "fault" ? "fault" : "yield",
    fields: {
      outcome: result.outcome,
      cause: causeWord(result.cause),
      request_ms: round(result.requestMs),
      confirm_ms: round(result.confirmMs),
      freed_gb: toGib(result.freedBytes),
      models: result.models,
      confirmed_by: result.confirmedBy,
      margin_ms: null,
      gated: result.cause.kind === "gate",
      pids: result.pids,
      held: result.held.map((held) => ({
        pid: held.pid,
        starttime: held.startTime ?? null,
        model: held.model,
        gb: toGib(held.bytes),
        evidence: held.evidence,
      })),
      message: result.message,
    },
  };
}

export function purgeRecord(result: PurgeResult): Recorded {
  return {
    kind: "purge",
    fields: {
      outcome: result.outcome,
      cause: causeWord(result.cause),
      request_ms: round(result.requestMs),
      confirm_ms: round(result.confirmMs),
      freed_gb: toGib(result.freedBytes),
      remaining_gb: toGib(result.remainingBytes),
      confirmed_by: result.confirmedBy,
      purge_overlapped: result.overlapped,
      gated: result.cause.kind === "gate",
      message: result.message,
    },
  };
}

function phaseFields(phases: SwitchResult["phases"]): Readonly<Record<string, unknown>> {
  return {
    room_ms: round(phases.roomMs),
    wait_ms: round(phases.waitMs),
    load_ms: round(phases.loadMs),
    answer_ms: round(phases.answerMs),
    read_back_ms: round(phases.readBackMs),
  };
}

function figureFields({ figures, residencyBeforePct: pct }: SwitchResult): Readonly<Record<string, unknown>> {
  const { sizeBytes, isResidencyExact, isPlain, limits, link } = figures;
  const gb = (bytes: number) => round(bytes / 1e9, 3);
  const isKnown = sizeBytes !== null && pct !== null;
  const linkBytesPerSecond = link === null ? null : linkRate(link);
  return {
    size_gb: sizeBytes === null ? null : gb(sizeBytes),
    residency_exact: isResidencyExact,
    from_cache_gb: isKnown ? gb((sizeBytes * pct) / 100) : null,
    from_disk_gb: isKnown ? gb(sizeBytes * (1 - pct / 100)) : null,
    time_is_plain: isPlain,
    hit_gb_per_s: round(limits.hitBytesPerSecond / 1e9, 2),
    partial_gb_per_s: round(limits.partialBytesPerSecond / 1e9, 2),
    limits_basis: limits.basis,
    context_length: figures.contextLength,
    parallel: figures.parallel,
    disk_gb_per_s: figures.diskBytesPerSecond === null ? null : round(figures.diskBytesPerSecond / 1e9, 2),
    link_gb_per_s: linkBytesPerSecond === null ? null : round(linkBytesPerSecond / 1e9, 1),
    link_narrow: link === null ? null : isNarrow(link),
  };
}

export function swapRecord(result: SwitchResult): Recorded {
  return {
    kind: "swap",
    fields: {
      model: result.targetModel,
      prev_model: result.prevModel,
      load_ms: round(result.loadMs),
      total_ms: round(result.totalMs),
      phases: phaseFields(result.phases),
      gb_per_s: result.bytesPerSecond === null ? null : round(result.bytesPerSecond / 1e9, 2),
      class: result.class,
      class_basis: result.classBasis,
      is_ram_hit: result.class === "ram_hit",
      suspected_partial_load: null,
      residency_before_pct: result.residencyBeforePct,
      ...figureFields(result),
      tokens_per_sec: round(result.tokensPerSecond, 2),
      reclaimed_gb: toGib(result.reclaimedBytes),
      vram_gb: toGib(result.vramBytes),
      spilled: result.spilled,
      verdict: result.verdict,
    },
  };
}

export function endRecord(result: EndRunnerResult): Recorded {
  return {
    kind: "fault",
    fields: {
      what: "runner_ended",
      outcome: result.outcome,
      pids: [result.process.pid],
      starttime: result.process.startTime,
      models: result.model === null ? [] : [result.model],
      confirm_ms: round(result.confirmMs),
      freed_gb: toGib(result.freedBytes),
      confirmed_by: result.confirmedBy,
      message: result.message,
    },
  };
}
