/** A REST door on real loopback sockets, for the clients that need some. */
import { peerOf } from "../../lib/show/access.ts";
import { openDoor } from "./rest_door.ts";
import type { OpenDoor } from "./rest_door.ts";

export interface Served extends OpenDoor, AsyncDisposable {
  readonly url: string;
  readonly socketPath: string;
}

/** Serves on a free port and on a unix socket in a folder of its own. */
export async function serve(options: Parameters<typeof openDoor>[0] = {}): Promise<Served> {
  const open = openDoor(options);
  const folder = await Deno.makeTempDir({ prefix: "hyperswap-door-" });
  const socketPath = `${folder}/door.sock`;
  const { door } = open;
  const tcp = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request, { remoteAddr }) => door.fetch(request, peerOf(remoteAddr)),
  );
  const unix = Deno.serve(
    { path: socketPath, onListen() {} },
    (request, { remoteAddr }) => door.fetch(request, peerOf(remoteAddr)),
  );
  return {
    ...open,
    url: `http://127.0.0.1:${tcp.addr.port}`,
    socketPath,
    async [Symbol.asyncDispose]() {
      await door.close();
      await Promise.all([tcp.shutdown(), unix.shutdown()]);
      await Deno.remove(folder, { recursive: true });
    },
  };
}
