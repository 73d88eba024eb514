/**
 * A body without what it was packed in. Measured: ComfyUI 0.3.64 takes gzip, deflate and any charset; Ollama 0.24.0
 * takes zstd on some routes and refuses gzip. What can't be unpacked here may still be understood there.
 */
import { type HeadField, tokensOf, valueOf } from "./http_head.ts";
import { concatBytes } from "./socket.ts";

/** As much as is looked at: a few bytes may stand for any number. */
const MAX_PLAIN_BYTES = 8 * 2 ** 20;

/** As UTF-8, or the beginning of it; null where it can't be read. */
export async function plainContent(
  content: Uint8Array<ArrayBuffer>,
  fields: readonly HeadField[],
): Promise<Uint8Array<ArrayBuffer> | null> {
  const charset = /;\s*charset\s*=\s*"?([^";\s]*)/i.exec(valueOf(fields, "content-type") ?? "")?.[1] ?? "utf-8";
  if (!/^(?:utf-?8|us-ascii)$/i.test(charset)) return null;
  const [coding = "identity", ...others] = tokensOf(fields, "content-encoding");
  if (others.length > 0) return null;
  if (coding === "identity") return content;
  return coding === "gzip" || coding === "deflate" ? await unpacked(content, coding) : null;
}

async function unpacked(
  content: Uint8Array<ArrayBuffer>,
  coding: "gzip" | "deflate",
): Promise<Uint8Array<ArrayBuffer> | null> {
  const plain: Uint8Array[] = [];
  let length = 0;
  try {
    for await (const piece of new Blob([content]).stream().pipeThrough(new DecompressionStream(coding))) {
      plain.push(piece);
      length += piece.length;
      if (length >= MAX_PLAIN_BYTES) break;
    }
  } catch {
    // Broken, or cut off because it was too long to be kept: what was read says what it says.
  }
  return length === 0 ? null : concatBytes(...plain);
}
