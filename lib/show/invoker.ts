/**
 * How a door reaches the operations: in its own process, or over HTTP in the service that owns the card. Doors hold an
 * Invoker and don't know which.
 */
import { Failure } from "../model/failure.ts";
import type { CallOptions, Services } from "../model/services.ts";
import type { Download, DownloadText } from "../operations/download.ts";
import type { Feed, Operation } from "../operations/operation.ts";
import { asFailure, refused, refusedBy } from "../operations/outcome.ts";
import type { Outcome, Refused, Report } from "../operations/outcome.ts";
import { refuseAs, refuseWithout } from "./access.ts";
import type { Scopes } from "./access.ts";

export interface FollowOptions {
  readonly signal: AbortSignal;
  readonly onItem: (item: unknown) => void;
}

export interface Invoker {
  /** Where the operations are carried out, in words. */
  readonly where: string;
  /** Never rejects. Aborting the signal cancels the work, also work that goes on elsewhere. */
  invoke(operation: Operation, input: Readonly<Record<string, unknown>>, call: CallOptions): Promise<Outcome>;
  /** Items of a feed until it ends or the signal aborts (both: null), or why it can't be followed. */
  follow(feed: Feed, input: Readonly<Record<string, unknown>>, options: FollowOptions): Promise<Refused | null>;
  /** A download's text as it comes, or why it can't be had. Breaks off with the signal. */
  download(
    download: Download,
    input: Readonly<Record<string, unknown>>,
    signal: AbortSignal,
  ): Promise<Refused | Pick<DownloadText, "chunks">>;
  close(): void;
}

export interface LocalInvokerOptions {
  /** Opened when first needed. */
  readonly services: () => Promise<Services> | Services;
  readonly scopes: Scopes;
  readonly report: Report;
  /** True where nobody owns the card: reads work, everything else says how to get an owner. */
  readonly isReadOnly?: boolean;
}

/** Operations in this very process. */
export function localInvoker(options: LocalInvokerOptions): Invoker {
  const { scopes, report } = options;
  /** What is left of a call once it may be made: its services, or why it may not. */
  const admit = async (what: Operation | Feed | Download): Promise<Refused | Services> => {
    if (options.isReadOnly === true && what.access !== "read") {
      return refused("unavailable", `Cannot call ${what.name}: no HyperSwap service is running here`, {
        hint: "Start it with systemctl start hyperswap, or hyperswap serve",
      });
    }
    return refuseWithout(what.access, scopes, what.name) ?? await options.services();
  };
  return {
    where: "this process",
    async invoke(operation, input, call) {
      try {
        const services = await admit(operation);
        if ("ok" in services) return services;
        return refuseAs(operation, { services, input, scopes }) ??
          await operation.invoke(services, input, { ...call, report });
      } catch (error) {
        return refusedBy(asFailure(error, { operation: operation.name, signal: call.signal, report }));
      }
    },
    async follow(feed, input, { signal, onItem }) {
      try {
        const services = await admit(feed);
        if ("ok" in services) return services;
        await ended(signal, (end) => feed.follow(services, input, { emit: onItem, end }));
        return null;
      } catch (error) {
        return refusedBy(asFailure(error, { operation: feed.name, signal, report }));
      }
    },
    async download(download, input, signal) {
      try {
        const services = await admit(download);
        return "ok" in services ? services : await download.begin(services, input, signal);
      } catch (error) {
        return refusedBy(asFailure(error, { operation: download.name, signal, report }));
      }
    },
    close() {},
  };
}

/** Resolves when the feed says `end` or the signal aborts, and stops the feed then. */
async function ended(signal: AbortSignal, open: (end: () => void) => { stop(): void }): Promise<void> {
  if (signal.aborted) return;
  const over = Promise.withResolvers<void>();
  const end = () => over.resolve();
  // Before it opens: its first item may be what has the follower stop.
  signal.addEventListener("abort", end, { once: true });
  try {
    const feed = open(end);
    await over.promise;
    feed.stop();
  } finally {
    signal.removeEventListener("abort", end);
  }
}

/** A Failure where a Refused came back: for callers that throw. */
export function failureOf(refusal: Refused): Failure {
  const { hint, details } = refusal;
  return new Failure(refusal.code, refusal.message, {
    ...(hint === null ? {} : { hint }),
    ...(details === null ? {} : { details }),
  });
}
