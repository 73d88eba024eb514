/** A download as a response: read as fast as the client takes it, nothing held beyond a page. */
import { joinSignals } from "../model/join_signals.ts";
import type { Services } from "../model/services.ts";
import type { Download } from "../operations/download.ts";
import { bindQuery } from "./bind.ts";

/** Throws Failure when its first part can't be had. `closing` ends it with the service. */
export async function downloadResponse(
  download: Download,
  from: { readonly services: Services; readonly request: Request; readonly closing: AbortSignal },
): Promise<Response> {
  const { services, request, closing } = from;
  const reading = joinSignals(request.signal, closing);
  const over = () => reading[Symbol.dispose]();
  try {
    const input = bindQuery({ ...download, aliases: {} }, new URL(request.url).searchParams);
    const { chunks, contentType, fileName } = await download.begin(services, input, reading.signal);
    const headers = { "content-type": contentType, "content-disposition": `attachment; filename="${fileName}"` };
    if (request.method !== "HEAD") return new Response(streamOf(chunks, over), { headers });
    over();
    return new Response(null, { headers });
  } catch (error) {
    over();
    throw error;
  }
}

/** `over` is called once nobody reads any more, whoever ended it. */
function streamOf(chunks: AsyncIterable<string>, over: () => void): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  const bytes = async function* () {
    try {
      for await (const chunk of chunks) yield encoder.encode(chunk);
    } finally {
      over();
    }
  };
  return ReadableStream.from(bytes());
}
