/** Whether an answer is a refusal for want of memory, seen before any of it goes to the client. */
import { errorText } from "../upstream/error_text.ts";
import { isOutOfMemory } from "../upstream/ollama_failures.ts";
import { type BodyFrame, responseFrame } from "./body_frame.ts";
import type { ResponseHead } from "./http_head.ts";
import { concatBytes, latin1, type Socket } from "./socket.ts";

/** Refusals are a few hundred bytes. */
const MAX_REFUSAL_BYTES = 65_536;
/** How an error begins that comes after status 200. */
const IN_BAND = /^\s*(?:data:\s*)?\{"error"/;

const decoder = new TextDecoder();

/** The refusal's text, or null. What it reads of the body stays unread on the link. */
export async function memoryRefusal(
  head: ResponseHead,
  { link, method }: { readonly link: Socket; readonly method: string },
): Promise<string | null> {
  const isError = head.status >= 400;
  if (!isError && head.status !== 200) return null;
  for (;;) {
    const frame = responseFrame(head, { method });
    const content = contentOf(link.unread, frame);
    // Nearly every answer is none: that is seen by its first bytes.
    if (!isError && content.length > 0 && !IN_BAND.test(latin1(content.subarray(0, 64)))) return null;
    const body = decoder.decode(content);
    if (frame === null || frame === "until the end" || frame.isDone || link.unreadLength > MAX_REFUSAL_BYTES) {
      return refusalIn(body);
    }
    if (!isError && isOutOfMemory(body)) return refusalIn(body);
    if (!(await link.fill())) return null;
  }
}

function contentOf(bytes: Uint8Array, frame: BodyFrame | "until the end" | null): Uint8Array {
  if (frame === "until the end" || frame === null) return bytes;
  const content: Uint8Array[] = [];
  frame.take(bytes, (part) => content.push(part));
  return content.length === 1 && content[0] !== undefined ? content[0] : concatBytes(...content);
}

function refusalIn(body: string): string | null {
  const text = errorText(body.replace(/^\s*data:\s*/, "")) ?? "";
  return isOutOfMemory(text) ? text : null;
}
