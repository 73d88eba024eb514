/** Whether an answer is a refusal for want of memory, seen before any of it goes to the client. */
import { errorText } from "../upstream/error_text.ts";
import { isOutOfMemory } from "../upstream/ollama_failures.ts";
import { type BodyFrame, responseFrame } from "./body_frame.ts";
import type { ResponseHead } from "./http_head.ts";
import { concatBytes, type Socket } from "./socket.ts";

/** Refusals are a few hundred bytes. */
const MAX_REFUSAL_BYTES = 65_536;
/** How an error begins that comes after status 200. */
const IN_BAND = /^(?:data:\s*)?\{"error"/;

/** The refusal's text, or null. What it reads of the body stays unread on the link. */
export async function memoryRefusal(
  head: ResponseHead,
  { link, method }: { readonly link: Socket; readonly method: string },
): Promise<string | null> {
  const isError = head.status >= 400;
  if (!isError && head.status !== 200) return null;
  for (;;) {
    const frame = responseFrame(head, { method });
    const body = contentOf(link.unread, frame);
    if (!isError && body.length > 0 && !IN_BAND.test(body.trimStart())) return null;
    if (frame === null || frame === "until the end" || frame.isDone || link.unread.length > MAX_REFUSAL_BYTES) {
      return refusalIn(body);
    }
    if (!isError && isOutOfMemory(body)) return refusalIn(body);
    if (!(await link.fill())) return null;
  }
}

function contentOf(bytes: Uint8Array, frame: BodyFrame | "until the end" | null): string {
  if (frame === "until the end" || frame === null) return new TextDecoder().decode(bytes);
  const content: Uint8Array[] = [];
  frame.take(bytes, (part) => content.push(part));
  return new TextDecoder().decode(concatBytes(...content));
}

function refusalIn(body: string): string | null {
  const text = errorText(body.replace(/^\s*data:\s*/, "")) ?? "";
  return isOutOfMemory(text) ? text : null;
}
