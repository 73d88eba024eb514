import assert from "node:assert/strict";
import { listen } from "../../lib/show/listen.ts";
import { openDoor } from "./rest_door.ts";

/** Nobody: no file of ours is theirs. */
const STRANGER_UID = 65_534;

/** Why another user can't be tried here; null where it can. */
function whyNot(): string | null {
  if (Deno.uid() !== 0) return "only root can start a process as somebody else";
  try {
    Deno.statSync("/bin/bash");
    return null;
  } catch {
    return "there is no bash to ask with";
  }
}

const reason = whyNot();
if (reason !== null) console.log(`skipped: another user's process on loopback (${reason})`);

/** Bash opens the connection itself, so nothing else has to be readable for that user. */
async function asStranger(script: string): Promise<string> {
  const { stdout } = await new Deno.Command("/bin/bash", {
    args: ["-c", script],
    uid: STRANGER_UID,
    gid: STRANGER_UID,
    cwd: "/",
    clearEnv: true,
  }).output();
  return new TextDecoder().decode(stdout);
}

function post(port: number, path: string, body: string): Promise<string> {
  const head = `POST ${path} HTTP/1.1\\r\\nHost: localhost:${port}\\r\\nContent-Type: application/json\\r\\n` +
    `Content-Length: ${body.length}\\r\\nConnection: close\\r\\n\\r\\n`;
  return asStranger(`exec 3<>/dev/tcp/127.0.0.1/${port}; printf '${head}%s' '${body}' >&3; cat <&3`);
}

Deno.test({
  name: "a process of another user on loopback can yield, but not touch the card nor open the socket",
  ignore: reason !== null,
  async fn() {
    const open = openDoor();
    const folder = await Deno.makeTempDir({ prefix: "hyperswap-other-" });
    await Deno.chmod(folder, 0o755);
    const socketPath = `${folder}/door.sock`;
    const listening = await listen({
      rest: open.door,
      hostname: "127.0.0.1",
      port: 0,
      socketPath,
      guardSocket: (path) => Deno.chmodSync(path, 0o660),
    });
    const { port } = listening;
    assert.match(await post(port, "/api/free-vram", "{}"), /^HTTP\/1\.1 200 /);
    for (
      const [path, body] of [
        ["/api/gpu/fan", '{"mode":"manual","percent":30}'],
        ["/api/overclock/lever", '{"lever":"power_limit_w","value":100}'],
        ["/api/overclock/restore", "{}"],
        ["/api/runners/end", '{"pid":1,"starttime":1}'],
        ["/api/login/link", "{}"],
      ] as const
    ) assert.match(await post(port, path, body), /^HTTP\/1\.1 403 /, path);
    assert.deepEqual(open.box.asked.map((line) => line.split(" ")[0]), ["yieldVram"]);
    assert.match(await asStranger(`[ -w ${socketPath} ] && echo open || echo closed`), /closed/);
    await open.door.close();
    await listening.stop();
    await Deno.remove(folder, { recursive: true });
  },
});
