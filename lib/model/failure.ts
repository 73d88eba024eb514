/**
 * Every failure a caller can see, with the one place its HTTP status, CLI exit code and JSON-RPC code are decided.
 * Anything thrown that is not a Failure is a bug and becomes `internal`.
 */
export const FAILURES = {
  invalid_input: { http: 400, exit: 2, rpc: -32602 },
  unauthorized: { http: 401, exit: 6, rpc: -32001 },
  forbidden: { http: 403, exit: 6, rpc: -32003 },
  not_found: { http: 404, exit: 3, rpc: -32004 },
  method_not_allowed: { http: 405, exit: 2, rpc: -32601 },
  busy: { http: 409, exit: 4, rpc: -32009 },
  too_large: { http: 413, exit: 2, rpc: -32013 },
  too_many: { http: 429, exit: 4, rpc: -32029 },
  cancelled: { http: 499, exit: 130, rpc: -32800 },
  internal: { http: 500, exit: 70, rpc: -32603 },
  upstream: { http: 502, exit: 7, rpc: -32052 },
  unavailable: { http: 503, exit: 5, rpc: -32053 },
  wont_fit: { http: 507, exit: 8, rpc: -32057 },
} as const;

export type FailureCode = keyof typeof FAILURES;

/** The exit code of what ran for the sake of memory that isn't confirmed to be there. */
export const EXIT_NOT_RELEASED = 9;

export interface FailureOptions {
  /** What the caller can do about it. */
  readonly hint?: string;
  /** Figures behind the refusal, in the shape the operation documents. */
  readonly details?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

/** An expected refusal: the caller asked for something that can't be done, and is told why and what helps. */
export class Failure extends Error {
  override readonly name = "Failure";
  readonly hint: string | null;
  readonly details: Readonly<Record<string, unknown>> | null;
  constructor(readonly code: FailureCode, message: string, options: FailureOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.hint = options.hint ?? null;
    this.details = options.details ?? null;
  }
}

/** What an error says, whatever was thrown. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Throws for a case the types say can't happen. */
export function unreachable(value: never): never {
  throw new TypeError(`Cannot handle ${JSON.stringify(value)}`);
}
