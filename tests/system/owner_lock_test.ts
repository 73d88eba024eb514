import assert from "node:assert/strict";
import { openLibc } from "../../ffi/libc.ts";
import { Failure } from "../../lib/model/failure.ts";
import { type Owner, readOwner, takeLock } from "../../lib/system/owner_lock.ts";
import { tempFolder } from "../record/temp_folder.ts";

const FIRST: Owner = { pid: 4711, url: "http://127.0.0.1:9090", socket: "/run/s.sock", since: "2026-12-01T10:00:00Z" };
const SECOND: Owner = { pid: 4712, url: "http://127.0.0.1:9091", socket: null, since: "2026-12-01T10:00:01Z" };

function refusal(take: () => unknown): Failure {
  try {
    take();
  } catch (error) {
    assert.ok(error instanceof Failure, String(error));
    return error;
  }
  assert.fail("it was taken");
}

Deno.test("one holder at a time; the second is told who the first is", () => {
  using folder = tempFolder();
  using libc = openLibc();
  const path = `${folder.path}/card.lock`;
  {
    using lock = takeLock(path, libc, FIRST);
    assert.equal(lock.path, path);
    const error = refusal(() => takeLock(path, libc, SECOND));
    assert.equal(error.code, "unavailable");
    assert.match(error.message, /pid 4711 at http:\/\/127\.0\.0\.1:9090, since 2026-12-01T10:00:00Z/);
    assert.deepEqual(error.details, { lock: path, owner: FIRST });
    assert.deepEqual(readOwner(path), FIRST);
  }
  using _again = takeLock(path, libc, SECOND);
  assert.deepEqual(readOwner(path), SECOND);
});

Deno.test("a lock is gone with its process, however that ends", async () => {
  using folder = tempFolder();
  using libc = openLibc();
  const path = `${folder.path}/card.lock`;
  const script = `
    import { openLibc } from ${JSON.stringify(new URL("../../ffi/libc.ts", import.meta.url).href)};
    import { takeLock } from ${JSON.stringify(new URL("../../lib/system/owner_lock.ts", import.meta.url).href)};
    takeLock(${JSON.stringify(path)}, openLibc(), ${JSON.stringify(FIRST)});
    console.log("held");
    setTimeout(() => {}, 60_000);
  `;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-config", "--no-check", `data:application/typescript,${encodeURIComponent(script)}`],
    stdout: "piped",
    signal: AbortSignal.timeout(30_000),
  }).spawn();
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (!chunk.includes("held")) continue;
    refusal(() => takeLock(path, libc, SECOND));
    child.kill("SIGKILL");
  }
  await child.status;
  using _lock = takeLock(path, libc, SECOND);
});

Deno.test("what stands in the file is believed only if it is an owner", () => {
  using folder = tempFolder();
  const path = `${folder.path}/card.lock`;
  assert.equal(readOwner(path), null);
  for (const text of ["", "{", "7", '{"pid":1}']) {
    Deno.writeTextFileSync(path, text);
    assert.equal(readOwner(path), null);
  }
});

Deno.test("a holder that left no word is still a holder", () => {
  using folder = tempFolder();
  using libc = openLibc();
  const path = `${folder.path}/card.lock`;
  using _lock = takeLock(path, libc, FIRST);
  Deno.writeTextFileSync(path, "");
  assert.match(refusal(() => takeLock(path, libc, SECOND)).message, /another process/);
});

Deno.test("a folder that isn't there refuses with the remedy, and nothing stays open", () => {
  using libc = openLibc();
  const error = refusal(() => takeLock("/proc/hyperswap/card.lock", libc, FIRST));
  assert.match(error.message, /Cannot open the lock \/proc\/hyperswap\/card\.lock/);
  assert.match(error.hint ?? "", /--state-dir/);
});

Deno.test("another user's lock file is locked by reading it", () => {
  const opened: string[] = [];
  let closed = 0;
  const calls = {
    open: (_path: string, { flags }: { readonly flags: readonly string[] }) => {
      opened.push(flags.join());
      if (flags.includes("readWrite")) throw new Error("EACCES");
      return 7;
    },
    close: () => {
      closed += 1;
    },
    tryLock: (fd: number) => fd === 7,
  };
  using folder = tempFolder();
  takeLock(`${folder.path}/card.lock`, calls, FIRST)[Symbol.dispose]();
  assert.deepEqual(opened, ["readWrite", "read"]);
  assert.equal(closed, 1);
});
