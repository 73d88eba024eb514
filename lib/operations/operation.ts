/**
 * One operation, said once: what it takes, what it answers, who may call it, and how each door names it. `invoke` is the
 * only place that validates input and output and maps failures; doors are loops over the registry.
 */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import type { FailureCode } from "../model/failure.ts";
import type { Timer } from "../model/ports.ts";
import { SCOPES } from "../model/services.ts";
import type { CallOptions, Progress, Scope, Services } from "../model/services.ts";
import { answered, asFailure, outcomeOfRun, refusedBy } from "./outcome.ts";
import type { Outcome, Report } from "./outcome.ts";
import { readInput, readParameters } from "./parameters.ts";
import type { Aliases, Parameter } from "./parameters.ts";
import type { Route } from "./routes.ts";
import { RunWire, viewRun } from "./run_view.ts";

/** What a caller must be allowed to do (SPEC 7): see, move VRAM, set the card, administer. */
export type Access = Scope;
export const ACCESSES: readonly Access[] = SCOPES;

export interface Call extends CallOptions {
  readonly report: Report;
}

export interface HttpDoor extends Route {
  /** Parameters of a POST that are accepted in the query too. */
  readonly query?: readonly string[];
}

export interface CliDoor {
  readonly words: readonly string[];
  /** Parameters that may be given without their flag, in this order. */
  readonly positional?: readonly string[];
  /** The exit code an answer means, where it isn't 0. Also for answers that came over HTTP. */
  readonly exit?: (value: Readonly<Record<string, unknown>>) => number;
}

export interface ToolDoor {
  readonly name: string;
  /** For the model that picks a tool: when to use it, beyond the summary. */
  readonly guidance?: string;
  /** Whether it takes something away (unloads, ends). */
  readonly destructive?: boolean;
  /** Whether calling it again changes nothing more. */
  readonly idempotent?: boolean;
}

export interface OperationSpec<N extends string, I extends z.ZodObject, O extends z.ZodObject> {
  readonly name: N;
  readonly summary: string;
  readonly access: Access;
  /** A parameter `wait` makes it long work: it runs as a run, and `wait: false` answers with that run. */
  readonly input: I;
  readonly output: O;
  readonly aliases?: Aliases;
  /** Refusals to expect beside those that any call may meet. */
  readonly fails: readonly FailureCode[];
  readonly http: HttpDoor;
  readonly cli: CliDoor | false;
  readonly tool: ToolDoor | false;
  /** Names another operation whose access this call needs as well: cancelling a run takes what starting it took. */
  readonly accessAs?: (services: Services, input: Readonly<Record<string, unknown>>) => string | null;
  /** Of long work: throws Failure for what can be refused before a run of it begins. */
  readonly admit?: (services: Services, input: z.output<I>) => void;
  handle(services: Services, input: z.output<I>, call: CallOptions): Promise<z.input<O>> | z.input<O>;
}

/** An operation as doors see it: data, and one validated entry. */
export interface Operation<
  N extends string = string,
  I extends z.ZodObject = z.ZodObject,
  O extends z.ZodObject = z.ZodObject,
> extends Omit<OperationSpec<N, I, O>, "handle" | "admit" | "aliases"> {
  readonly aliases: Aliases;
  readonly isLong: boolean;
  /** Made on first use: most processes never look. */
  readonly parameters: readonly Parameter[];
  invoke(services: Services, raw: unknown, call: Call): Promise<Outcome>;
}

/** Makes an operation of its description. */
export function define<N extends string, I extends z.ZodObject, O extends z.ZodObject>(
  spec: OperationSpec<N, I, O>,
): Operation<N, I, O> {
  const { handle, admit, aliases = {}, ...data } = spec;
  let parameters: readonly Parameter[] | null = null;
  const operation: Operation<N, I, O> = {
    ...data,
    aliases,
    isLong: "wait" in spec.input.shape,
    get parameters() {
      return parameters ??= readParameters(spec.input, aliases);
    },
    async invoke(services, raw, call) {
      const input = readInput(raw, operation);
      if (!input.ok) return input;
      const perform = async (options: CallOptions) => {
        try {
          // readInput has parsed it by this very schema.
          const value = await handle(services, input.data as z.output<I>, options);
          // The schema is the contract: what it doesn't name doesn't leave, and what it does name is checked.
          return spec.output.parse(value) as Readonly<Record<string, unknown>>;
        } catch (error) {
          throw asFailure(error, { operation: spec.name, signal: options.signal, report: call.report });
        }
      };
      try {
        call.signal.throwIfAborted();
        if (operation.isLong) {
          // As above: parsed by this very schema.
          admit?.(services, input.data as z.output<I>);
          return await runLong({ name: spec.name, services, perform, wait: input.data["wait"] !== false, call });
        }
        return answered(await perform(call));
      } catch (error) {
        return refusedBy(asFailure(error, { operation: spec.name, signal: call.signal, report: call.report }));
      }
    },
  };
  return operation;
}

/** Long work runs on its own: whoever waits may cancel it by their signal, and leaves it running by not aborting that. */
async function runLong(work: {
  readonly name: string;
  readonly services: Services;
  readonly perform: (options: CallOptions) => Promise<unknown>;
  readonly wait: boolean;
  readonly call: Call;
}): Promise<Outcome> {
  const { services: { runs }, call } = work;
  const { id } = runs.start(work.name, work.perform);
  if (!work.wait) return answered(RunWire.parse(viewRun(runs.get(id))), true);
  const cancel = () => {
    runs.cancel(id).catch((error: unknown) => call.report(error, work.name));
  };
  call.signal.addEventListener("abort", cancel, { once: true });
  let told: Progress | null = null;
  const follower = runs.follow(id, ({ state, progress }) => {
    // The end is the answer's to tell.
    if (state === "running" && progress !== null && progress !== told) call.progress(progress);
    told = progress;
  });
  try {
    return outcomeOfRun(RunWire.parse(viewRun(await runs.ended(id))));
  } finally {
    follower.stop();
    call.signal.removeEventListener("abort", cancel);
  }
}

export interface FeedSpec<N extends string, I extends z.ZodObject, T extends z.ZodType> {
  readonly name: N;
  readonly summary: string;
  readonly access: Access;
  readonly input: I;
  /** What each event carries. */
  readonly item: T;
  readonly http: Route;
  /** True: every follower sees the same items, so one subscription and one encoding serve them all. */
  readonly isShared: boolean;
  /** Calls `emit` at once with where things stand, then with every change, until stopped; `end` says it is over. */
  open(services: Services, input: z.output<I>, to: Follower<z.output<T>>): Timer;
}

export interface Follower<T> {
  emit(item: T): void;
  end(): void;
}

/** Live data as doors see it. */
export interface Feed<
  N extends string = string,
  I extends z.ZodObject = z.ZodObject,
  T extends z.ZodType = z.ZodType,
> extends Omit<FeedSpec<N, I, T>, "open"> {
  /** Throws Failure when the input is wrong or there is nothing to follow. */
  follow(services: Services, raw: unknown, to: Follower<z.output<T>>): Timer;
}

/** Makes a feed of its description. */
export function feed<N extends string, I extends z.ZodObject, T extends z.ZodType>(
  spec: FeedSpec<N, I, T>,
): Feed<N, I, T> {
  const { open, ...data } = spec;
  return {
    ...data,
    follow(services, raw, to) {
      const input = readInput(raw, { input: spec.input, aliases: {}, parameters: readParameters(spec.input, {}) });
      if (!input.ok) throw new Failure(input.code, input.message, input.hint === null ? {} : { hint: input.hint });
      // readInput has parsed it by this very schema.
      return open(services, input.data as z.output<I>, to);
    },
  };
}

/** No progress is wanted. */
export function ignoreProgress(_progress: Progress): void {}
