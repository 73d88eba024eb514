/**
 * What the gate's proxies ask, and what they are told (SPEC 2.9): the word between whoever stands in the way of a
 * request and whoever decides about the card.
 *
 * The life of a request, each step exactly once:
 *
 *   offer → pass → take → ended        the common way
 *                       → outOfMemory → retry → ended, or not
 *         → refused                    nothing is ever sent
 *         → lapsed                     its client left first: nothing is ever sent
 */
import type { Tenant } from "./tenants.ts";
import type { MonotonicMs, WallMs } from "./units.ts";

export const PRIORITIES = ["interactive", "batch"] as const;
/** Interactive goes first; a batch request that has waited for long enough counts as interactive. */
export type Priority = typeof PRIORITIES[number];

/** A request that makes a tenant take VRAM. Whatever else comes by is passed on without asking. */
export interface AdmissionRequest {
  readonly tenant: Tenant;
  /** The path as it was asked for, without its query ("/api/chat", "/prompt"). */
  readonly path: string;
  /** Ollama: the model as the body names it. Null where it can't be read; then it counts as one that isn't resident. */
  readonly model: string | null;
  /** Ollama: `options.num_ctx`, where the body sets it. */
  readonly contextLength: number | null;
  /** ComfyUI: the model files that the prompt's graph names (checkpoints, diffusion models, …); empty = unknown. */
  readonly files: readonly string[];
  /** `X-HyperSwap-Priority` as it was sent, or null. What isn't a priority is ignored. */
  readonly priority: string | null;
  /** When the request's head was complete. */
  readonly arrivedAtMs: MonotonicMs;
}

/** Why a request may go, in one word for the header. Those of a gate that stands open are `OpenReason`s. */
export type PassReason =
  /** Its model is on the card already, or ComfyUI is at work already. */
  | "resident"
  /** It fits beside what is there. */
  | "fits"
  /** Nobody held anything that had to go. */
  | "free"
  /** It was held until the driver had the other's memory back. */
  | "released"
  | OpenReason;

/** Why the gate can't or mustn't decide: the request passes, marked and counted. */
export type OpenReason =
  | "paused"
  | "observe"
  /** The driver can't be read. */
  | "blind"
  /** The memory can't be had back: a stuck runner, or an upstream that doesn't give it. */
  | "fault"
  /** The arbiter hasn't answered in time. */
  | "stuck"
  /** The tenant runs on another host: this card has no part in it. */
  | "remote"
  | "stopping";

/** Told while a request is held, at once and whenever it changes. */
export interface HeldNote {
  readonly reason: string;
  /** Requests that go before it. */
  readonly position: number;
}

export type RetryVerdict =
  /** Memory was reclaimed: send the kept body once more, over a fresh connection. `heldMs`: what that took. */
  | { readonly kind: "retry"; readonly heldMs: number; readonly reason: string }
  /** Pass the refusal on as it came. */
  | { readonly kind: "give_up"; readonly reason: string };

/** How a request that was taken ended. */
export type GateOutcome =
  /** The upstream answered in full; `status` is its own. */
  | { readonly kind: "answered"; readonly status: number }
  /** The client left before the end; that was passed upstream. */
  | { readonly kind: "client_left" }
  /** The upstream broke off, or couldn't be reached. */
  | { readonly kind: "upstream_failed"; readonly message: string };

/** A request that may go. */
export interface Ticket {
  /**
   * Called right before the first byte is sent upstream. False: it has lapsed meanwhile (its client left, or it wasn't
   * taken in time) and must not be sent.
   */
  take(): boolean;
  /**
   * The upstream refused for want of memory, no byte of the answer went to the client, and the body is still at hand.
   * Asked at most once a request; a second call gives up. Never rejects.
   */
  outOfMemory(message: string): Promise<RetryVerdict>;
  /** Called once, when the answer has ended. For a lapsed ticket nothing needs to be called. */
  ended(outcome: GateOutcome): void;
}

export type Verdict =
  | {
    readonly kind: "pass";
    readonly ticket: Ticket;
    /** From the request's arrival to this verdict, ms; 0 where it wasn't held. */
    readonly heldMs: number;
    readonly reason: PassReason;
    /** The gate stands open: it could not, or must not, decide. */
    readonly isOpen: boolean;
    readonly message: string;
  }
  | {
    readonly kind: "refused";
    /** 429: too many wait already. 503: it was held for as long as is configured. */
    readonly status: 429 | 503;
    /** For `Retry-After`, whole seconds ≥ 1; null with 503 where no time can be named. */
    readonly retryAfterS: number | null;
    readonly message: string;
  }
  /** The client left while it was held. */
  | { readonly kind: "lapsed" };

/** The arbiter's word for the proxies. */
export interface Admission {
  /**
   * Offers a request. Resolves exactly once, and never rejects; at once (without a timer) when nothing is to be held.
   * `signal` aborts when the client leaves: what is held then lapses.
   */
  offer(
    request: AdmissionRequest,
    call: { readonly signal: AbortSignal; readonly held?: (note: HeldNote) => void },
  ): Promise<Verdict>;
}

/** Where clients point; null where that side of the gate is off. */
export interface GateUrls {
  readonly ollama: string | null;
  readonly comfyui: string | null;
}

/** The two proxies while they stand: what lib/gate's `openGate` resolves to. */
export interface GateDoors {
  readonly urls: GateUrls;
  /** Requests and sockets that are passing through just now. */
  open(): { readonly ollama: number; readonly comfyui: number };
  /** An ordered end: nothing new is taken in, what runs may finish until `signal` aborts. */
  close(signal: AbortSignal): Promise<void>;
}

/** A request that is held, as operations show it. */
export interface HeldView {
  readonly id: string;
  readonly tenant: Tenant;
  readonly path: string;
  /** The model, or the files of the prompt. */
  readonly what: string | null;
  readonly priority: Priority;
  /** Behind what it waits, in words. */
  readonly reason: string;
  readonly position: number;
  readonly sinceMs: WallMs;
}

/** The gate's counts since start. Each request counts once among the first four. */
export interface GateCounts {
  readonly passed: number;
  /** Of those that passed: held before. */
  readonly held: number;
  readonly refused: number;
  readonly lapsed: number;
  /** Of those that passed: because the gate stood open, by why. */
  readonly open: Readonly<Partial<Record<OpenReason, number>>>;
  /** Refusals for want of memory that were tried once more. */
  readonly retried: number;
}
