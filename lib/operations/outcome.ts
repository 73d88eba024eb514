/** How a call ended: a value, or a refusal with its code. Every door says the same, each in its own words. */
import { Failure, messageOf } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { RunWireView } from "./run_view.ts";

export interface Refused {
  readonly ok: false;
  readonly code: FailureCode;
  readonly message: string;
  /** What the caller can do about it. */
  readonly hint: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
}

export interface Answered {
  readonly ok: true;
  /** In wire form, as the operation's output schema says. */
  readonly value: Readonly<Record<string, unknown>>;
  /** True when long work was started and `value` is its run (HTTP 202). */
  readonly accepted: boolean;
}

export type Outcome = Answered | Refused;

/** Logs an unexpected error and gives it an id that the caller is shown. */
export type Report = (error: unknown, operation: string) => string;

export function answered(value: Readonly<Record<string, unknown>>, accepted = false): Answered {
  return { ok: true, value, accepted };
}

export function refused(
  code: FailureCode,
  message: string,
  more: { readonly hint?: string | null; readonly details?: Readonly<Record<string, unknown>> | null } = {},
): Refused {
  return { ok: false, code, message, hint: more.hint ?? null, details: more.details ?? null };
}

/** Whatever was thrown as a Failure: one that was expected as it is, a bug as `internal` with the id it was logged by. */
export function asFailure(
  error: unknown,
  context: { readonly operation: string; readonly signal: AbortSignal; readonly report: Report },
): Failure {
  if (error instanceof Failure) return error;
  const { operation, signal } = context;
  if (signal.aborted && isAbort(error, signal)) {
    return new Failure("cancelled", `Cancelled ${operation} before it ended`, { cause: error });
  }
  const id = context.report(error, operation);
  return new Failure("internal", `Internal error in ${operation} (id ${id})`, {
    hint: "This is a defect in HyperSwap: the log has the details under this id",
    cause: error,
  });
}

function isAbort(error: unknown, signal: AbortSignal): boolean {
  return error === signal.reason || (error instanceof DOMException && error.name === "AbortError");
}

export function refusedBy(failure: Failure): Refused {
  return refused(failure.code, messageOf(failure), { hint: failure.hint, details: failure.details });
}

/** A refusal as the body of every error answer: `{error: {code, message, hint?, details?}}`. */
export function errorBody(refusal: Refused): { readonly error: Readonly<Record<string, unknown>> } {
  const { code, message, hint, details } = refusal;
  return {
    error: {
      code,
      message,
      ...(hint === null ? {} : { hint }),
      ...(details === null ? {} : { details: { ...details } }),
    },
  };
}

/** What a run that has ended means for whoever waited for it. */
export function outcomeOfRun(run: Pick<RunWireView, "id" | "operation" | "state" | "result" | "error">): Outcome {
  if (run.state === "done") {
    // Parsed by the operation's own output schema before the run kept it.
    return answered(run.result as Readonly<Record<string, unknown>>);
  }
  const { error } = run;
  if (error !== null) {
    return refused(error.code, error.message, { hint: error.hint ?? null, details: error.details ?? null });
  }
  return refused("cancelled", `Cancelled ${run.operation} before it ended`);
}
