/** An answer too long for one document: text that is handed over as it is read. The third thing the registry holds. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import type { Services } from "../model/services.ts";
import type { Access } from "./operation.ts";
import { type Parameter, readInput, readParameters } from "./parameters.ts";
import type { Route } from "./routes.ts";

export interface DownloadText {
  readonly contentType: string;
  /** As a file is to be called. */
  readonly fileName: string;
  /** Pulled as fast as it is taken, never faster. */
  readonly chunks: AsyncIterable<string>;
}

export interface DownloadSpec<I extends z.ZodObject> {
  readonly name: string;
  readonly summary: string;
  readonly access: Access;
  readonly input: I;
  readonly http: Route;
  readonly cli: { readonly words: readonly [string] };
  open(services: Services, input: z.output<I>, signal: AbortSignal): DownloadText;
}

export interface Download extends Omit<DownloadSpec<z.ZodObject>, "open"> {
  readonly parameters: readonly Parameter[];
  /** Throws Failure when the input is wrong, or the first part can't be had. */
  begin(services: Services, raw: unknown, signal: AbortSignal): Promise<DownloadText>;
}

/** Makes a download of its description. */
export function download<I extends z.ZodObject>(spec: DownloadSpec<I>): Download {
  const { open, ...data } = spec;
  const parameters = readParameters(spec.input, {});
  return {
    ...data,
    parameters,
    async begin(services, raw, signal) {
      const input = readInput(raw, { input: spec.input, aliases: {}, parameters });
      if (!input.ok) throw new Failure(input.code, input.message, input.hint === null ? {} : { hint: input.hint });
      // readInput has parsed it by this very schema.
      const text = open(services, input.data as z.output<I>, signal);
      const chunks = text.chunks[Symbol.asyncIterator]();
      // What can't be had at all is said as a refusal, not as a file that breaks off.
      const first = await chunks.next();
      return { ...text, chunks: resumed(first, chunks) };
    },
  };
}

async function* resumed(first: IteratorResult<string>, rest: AsyncIterator<string>): AsyncGenerator<string> {
  try {
    for (let next = first; next.done !== true; next = await rest.next()) yield next.value;
  } finally {
    await rest.return?.();
  }
}
