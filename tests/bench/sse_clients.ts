/**
 * Clients of the live stream, in a process of their own: `sse_clients.ts <port> <path> <count> <read|stall>`. Says
 * `ready` once all are connected, ends when its stdin does, and then prints what it read.
 */

/** What a client process prints last. */
export interface Heard {
  /** Frames that the client with the fewest got. */
  readonly fewestFrames: number;
  /** Bytes of each frame that one client got, from its first to its last byte. */
  readonly frameBytes: readonly number[];
}

const decoder = new TextDecoder();

class Reader {
  frames = 0;
  readonly sizes: number[] = [];
  #rest = "";

  /** Counts frames; only one client looks at them more closely than at the blank line that ends each. */
  take(bytes: Uint8Array, isMeasured: boolean): void {
    const blocks = (this.#rest + decoder.decode(bytes)).split("\n\n");
    this.#rest = blocks.pop() ?? "";
    for (const block of blocks) {
      // The chunked encoding's own lines stand between frames and are no part of them.
      const frame = block.slice(Math.max(0, block.indexOf("event:")));
      if (!frame.startsWith("event:")) continue;
      this.frames += 1;
      if (isMeasured && frame.startsWith("event: patch")) this.sizes.push(frame.length + 2);
    }
  }
}

async function connect(port: number, path: string): Promise<Deno.Conn> {
  const connection = await Deno.connect({ hostname: "127.0.0.1", port });
  const head = `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`;
  await connection.write(new TextEncoder().encode(head));
  return connection;
}

async function read(connection: Deno.Conn, reader: Reader, isMeasured: boolean): Promise<void> {
  const buffer = new Uint8Array(65_536);
  try {
    for (let n = await connection.read(buffer); n !== null; n = await connection.read(buffer)) {
      reader.take(buffer.subarray(0, n), isMeasured);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.BadResource || error instanceof Deno.errors.Interrupted)) throw error;
  }
}

if (import.meta.main) {
  const [port = "", path = "", count = "", mode = ""] = Deno.args;
  const connections: Deno.Conn[] = [];
  const readers: Reader[] = [];
  for (let n = 0; n < Number(count); n++) {
    const connection = await connect(Number(port), path);
    connections.push(connection);
    if (mode !== "read") continue;
    const reader = new Reader();
    readers.push(reader);
    void read(connection, reader, n === 0);
  }
  await Deno.stdout.write(new TextEncoder().encode("ready\n"));
  await new Response(Deno.stdin.readable).text();
  for (const connection of connections) connection.close();
  const heard: Heard = {
    fewestFrames: readers.length === 0 ? 0 : Math.min(...readers.map(({ frames }) => frames)),
    frameBytes: readers[0]?.sizes ?? [],
  };
  await Deno.stdout.write(new TextEncoder().encode(`${JSON.stringify(heard)}\n`));
  Deno.exit(0);
}
