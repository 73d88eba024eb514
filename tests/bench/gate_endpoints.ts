/**
 * The gate bench's server (no argument) and its gate (the server's URL), each a program of its own as in life. As threads
 * of one they shared the engine's workers and its memory with the client that measures.
 */
import type { Admission } from "../../lib/model/admission.ts";
import { openGate } from "../../lib/gate/gate.ts";
import { systemClock } from "../../lib/system/clock.ts";

/** Lets everything pass at once: what is measured is the way through, not the decision. */
const OPEN: Admission = {
  offer: () =>
    Promise.resolve({
      kind: "pass",
      heldMs: 0,
      reason: "free",
      isOpen: false,
      message: "",
      ticket: {
        take: () => true,
        outOfMemory: () => Promise.resolve({ kind: "give_up", reason: "nothing to reclaim" }),
        ended: () => {},
      },
    }),
};

const PIECE = new Uint8Array(65_536);
const clock = systemClock();

function serve(): string {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { pathname, searchParams } = new URL(request.url);
    const count = Number(searchParams.get("n"));
    if (pathname === "/upload" || pathname === "/api/chat") {
      let bytes = 0;
      for await (const piece of request.body ?? []) bytes += piece.length;
      return new Response(`{"read":${bytes}}`);
    }
    if (pathname === "/download") return download(count);
    return pathname === "/stream" ? stream(count) : new Response('{"queue_running": [], "queue_pending": []}');
  });
  return `http://127.0.0.1:${server.addr.port}`;
}

function download(count: number): Response {
  let left = count;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const piece = PIECE.slice(0, left);
      left -= piece.length;
      controller.enqueue(piece);
      if (left === 0) controller.close();
    },
  });
  return new Response(body, { headers: { "content-length": `${count}` } });
}

/** Frames at the pace of a quick model, each with the moment it was made. */
function stream(count: number): Response {
  let left = count;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      await clock.sleep(40);
      controller.enqueue(new TextEncoder().encode(`${clock.monotonicMs()}\n`));
      left -= 1;
      if (left === 0) controller.close();
    },
  });
  return new Response(body, { headers: { "content-type": "application/x-ndjson" } });
}

async function openDoor(url: string): Promise<string | null> {
  const log = { debug() {}, info() {}, warn: console.error, error: console.error };
  const side = { listen: "127.0.0.1:0", url };
  return (await openGate({ ollama: side, comfyui: null, admission: OPEN, clock, log })).urls.ollama;
}

if (import.meta.main) {
  const [before] = Deno.args;
  console.log(before === undefined ? serve() : await openDoor(before));
}
