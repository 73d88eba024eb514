/** Why a call to an upstream gave no usable answer. */
export type UpstreamErrorKind =
  /** Nobody listens there. */
  | "refused"
  /** No way to the host: name, route, or a port the runtime won't connect to. */
  | "unreachable"
  /** Our own deadline passed. */
  | "timeout"
  /** The caller gave up. */
  | "aborted"
  /** The connection ended before the answer was complete. */
  | "closed"
  /** Answered with a status other than 2xx. */
  | "http"
  /** Status 200, and then an error inside the body. */
  | "in_band"
  /** Answered something that can't be what was asked for. */
  | "protocol"
  /** More bytes than we are willing to hold. */
  | "too_large";

export interface UpstreamErrorDetails {
  readonly url: string;
  readonly kind: UpstreamErrorKind;
  readonly status?: number | null;
  /** The cause in a few words, fit to follow a colon: "connection refused". */
  readonly reason: string;
  readonly body?: string | null;
  readonly cause?: unknown;
}

/** A call to Ollama or ComfyUI that failed. `action` completes the sentence "Cannot …". */
export class UpstreamError extends Error {
  override readonly name = "UpstreamError";
  readonly url: string;
  readonly kind: UpstreamErrorKind;
  /** HTTP status; null when no response head came. */
  readonly status: number | null;
  readonly reason: string;
  /** The error body as text, or null when there was none. */
  readonly body: string | null;

  constructor(action: string, details: UpstreamErrorDetails) {
    super(`Cannot ${action}: ${details.reason}`, details.cause === undefined ? undefined : { cause: details.cause });
    this.url = details.url;
    this.kind = details.kind;
    this.status = details.status ?? null;
    this.reason = details.reason;
    this.body = details.body ?? null;
  }
}

/** True when the server was not reached at all, as against reached and unwilling. */
export function isUnreached(error: unknown): boolean {
  return error instanceof UpstreamError && (error.kind === "refused" || error.kind === "unreachable");
}
