import assert from "node:assert/strict";
import { ErrnoError, errnoName } from "../../ffi/errno.ts";
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { encodeUnixAddress } from "../../ffi/libc_structs.ts";
import { unlessGone } from "../../lib/sample/vanishing.ts";

const SIGTERM = 15;

function refused(run: () => unknown): ErrnoError {
  try {
    run();
  } catch (error) {
    assert.ok(error instanceof ErrnoError, String(error));
    return error;
  }
  throw new assert.AssertionError({ message: "nothing was thrown" });
}

async function withFolder(run: (folder: string) => void | Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Targets of this process's descriptors below a folder that only this test knows. */
function openBelow(libc: Libc, folder: string): string[] {
  return libc.list("/proc/self/fd").flatMap((fd) => {
    const target = unlessGone(() => libc.readLink(`/proc/self/fd/${fd}`));
    return target?.startsWith(folder) ? [target] : [];
  });
}

Deno.test("pseudo files are read to their end, though their size says nothing", () => {
  using libc = openLibc();
  const status = libc.readText("/proc/self/status");
  assert.equal(/^Pid:\s+(\d+)$/m.exec(status)?.[1], String(Deno.pid));
  assert.equal(libc.stat("/proc/self/status").sizeBytes, 0);
  assert.match(libc.readText("/proc/meminfo"), /^MemTotal:/);
});

Deno.test("a file larger than the buffer, and one that isn't text, arrive whole", () =>
  withFolder(async (folder) => {
    using libc = openLibc();
    const bytes = Uint8Array.from({ length: 300_000 }, (_, i) => i % 251);
    await Deno.writeFile(`${folder}/large`, bytes);
    const read = libc.readBytes(`${folder}/large`);
    assert.deepEqual(read, bytes);
    libc.readText("/proc/self/status");
    assert.deepEqual(read, bytes, "what was returned is not the buffer of the next read");
    await Deno.writeFile(`${folder}/broken`, new Uint8Array([65, 0xFF, 66]));
    assert.equal(libc.readText(`${folder}/broken`), "A\uFFFDB");
    await Deno.writeTextFile(`${folder}/empty`, "");
    assert.equal(libc.readText(`${folder}/empty`), "");
  }));

Deno.test("an error names call, path and errno, and each comes from its own call", () =>
  withFolder(async (folder) => {
    using libc = openLibc();
    await Deno.writeTextFile(`${folder}/file`, "x");
    const missing = refused(() => libc.readText(`${folder}/none`));
    assert.deepEqual([missing.call, missing.code, missing.errno, missing.path], [
      "open",
      "ENOENT",
      2,
      `${folder}/none`,
    ]);
    assert.equal(missing.message, `Cannot open ${folder}/none: ENOENT`);
    assert.equal(refused(() => libc.readText(`${folder}/file/x`)).code, "ENOTDIR");
    assert.equal(refused(() => libc.readText(folder)).code, "EISDIR");
    assert.equal(refused(() => libc.readLink(`${folder}/file`)).code, "EINVAL");
    assert.equal(refused(() => libc.list(`${folder}/file`)).code, "ENOTDIR");
    assert.equal(refused(() => libc.fstat(999)).code, "EBADF");
    assert.equal(refused(() => libc.stat(`${folder}/none`)).call, "stat");
    assert.equal(errnoName(200), "errno 200");
  }));

Deno.test("descriptors don't leak, not even when a read is refused", () =>
  withFolder(async (folder) => {
    using libc = openLibc();
    await Deno.writeTextFile(`${folder}/file`, "x");
    for (let i = 0; i < 50; i++) {
      libc.readText(`${folder}/file`);
      libc.list(folder);
      refused(() => libc.readText(folder));
    }
    assert.deepEqual(openBelow(libc, folder), []);
    const fd = libc.open(`${folder}/file`, { flags: ["read"] });
    assert.deepEqual(openBelow(libc, folder), [`${folder}/file`]);
    libc.close(fd);
  }));

Deno.test("a folder is listed whole, links are read, files are told apart", () =>
  withFolder(async (folder) => {
    using libc = openLibc();
    const names = Array.from({ length: 800 }, (_, i) => `name-${i}-${"x".repeat(100)}`);
    await Promise.all(names.map((name) => Deno.writeTextFile(`${folder}/${name}`, "")));
    assert.deepEqual([...libc.list(folder)].sort(), names.sort());
    await Deno.symlink("socket:[4711]", `${folder}/link`);
    assert.equal(libc.readLink(`${folder}/link`), "socket:[4711]");
    assert.equal(libc.stat(`${folder}/link`, { isLinkFollowed: false }).kind, "link");
    assert.equal(libc.stat(folder).kind, "directory");
    assert.equal(libc.stat("/dev/null").kind, "character");
  }));

Deno.test("stat says what Deno says", () =>
  withFolder(async (folder) => {
    using libc = openLibc();
    const path = `${folder}/file`;
    await Deno.writeTextFile(path, "hello", { mode: 0o640 });
    const own = libc.stat(path);
    const theirs = await Deno.stat(path);
    assert.deepEqual(
      [own.kind, own.sizeBytes, own.uid, own.gid, own.inode, own.mode, Math.floor(own.modifiedMs)],
      ["file", 5, theirs.uid, theirs.gid, String(theirs.ino), 0o640, theirs.mtime?.getTime()],
    );
    assert.match(own.device, /^\d+:\d+$/);
    const fd = libc.open(path, { flags: ["read"] });
    assert.deepEqual(libc.fstat(fd), own);
    libc.close(fd);
    libc.chmod(path, 0o600);
    assert.equal(libc.stat(path).mode, 0o600);
    libc.chown(path, { uid: own.uid, gid: own.gid });
    assert.equal(refused(() => libc.chown(`${folder}/none`, { uid: 0, gid: 0 })).code, "ENOENT");
  }));

Deno.test("a lock has one holder, and is free again when its descriptor closes", () =>
  withFolder((folder) => {
    using libc = openLibc();
    const open = () => libc.open(`${folder}/lock`, { flags: ["readWrite"], mode: 0o600 });
    const first = open();
    const second = open();
    assert.deepEqual([libc.tryLock(first), libc.tryLock(second)], [true, false]);
    libc.unlock(first);
    assert.equal(libc.tryLock(second), true);
    libc.close(second);
    assert.equal(libc.tryLock(first), true);
    libc.close(first);
    assert.equal(refused(() => libc.tryLock(first)).code, "EBADF");
  }));

Deno.test("a pidfd signals the one process it was opened for, and no later one", async () => {
  using libc = openLibc();
  const child = new Deno.Command("sleep", { args: ["60"] }).spawn();
  const pidfd = libc.pidfdOpen(child.pid);
  libc.pidfdSendSignal(pidfd, SIGTERM);
  assert.equal((await child.status).signal, "SIGTERM");
  const gone = refused(() => libc.pidfdSendSignal(pidfd, SIGTERM));
  assert.deepEqual([gone.call, gone.code], ["pidfd_send_signal", "ESRCH"]);
  libc.close(pidfd);
  assert.equal(refused(() => libc.pidfdOpen(child.pid)).code, "ESRCH");
});

Deno.test("datagrams reach a path and an abstract address", () =>
  withFolder((folder) => {
    using libc = openLibc();
    // Deno can't bind an abstract address, so the receiver is libc's too.
    const receiver = Deno.dlopen("libc.so.6", {
      socket: { parameters: ["i32", "i32", "i32"], result: "i32" },
      bind: { parameters: ["i32", "buffer", "u32"], result: "i32" },
      recv: { parameters: ["i32", "buffer", "usize", "i32"], result: "isize" },
      close: { parameters: ["i32"], result: "i32" },
    });
    for (const address of [`${folder}/notify`, `@hyperswap-test-${Deno.pid}`]) {
      const fd = receiver.symbols.socket(1, 2, 0);
      const bound = encodeUnixAddress(address);
      assert.ok(bound !== null);
      assert.equal(receiver.symbols.bind(fd, bound, bound.length), 0);
      libc.sendDatagram(address, new TextEncoder().encode("READY=1"));
      const data = new Uint8Array(64);
      const length = Number(receiver.symbols.recv(fd, data, BigInt(data.length), 0x40));
      assert.equal(new TextDecoder().decode(data.subarray(0, length)), "READY=1");
      receiver.symbols.close(fd);
    }
    receiver.close();
    const refusals = [`${folder}/nobody`, `@hyperswap-nobody-${Deno.pid}`, `/${"x".repeat(120)}`].map((address) =>
      refused(() => libc.sendDatagram(address, new Uint8Array(1))).code
    );
    assert.deepEqual(refusals, ["ENOENT", "ECONNREFUSED", "ENAMETOOLONG"]);
    // Other tests open and close descriptors of this process meanwhile, but not hundreds.
    const before = libc.list("/proc/self/fd").length;
    for (let i = 0; i < 400; i++) refused(() => libc.sendDatagram(`${folder}/nobody`, new Uint8Array(1)));
    assert.ok(libc.list("/proc/self/fd").length < before + 200, "no socket is left open");
  }));

Deno.test("an abstract address has no terminator, a path has one", () => {
  assert.deepEqual([...(encodeUnixAddress("@ab") ?? [])], [1, 0, 0, 97, 98]);
  assert.deepEqual([...(encodeUnixAddress("/a") ?? [])], [1, 0, 47, 97, 0]);
});

Deno.test("the machine's constants are known, and a closed library throws", () => {
  const libc = openLibc();
  assert.ok(libc.pageSizeBytes >= 4096 && libc.ticksPerSecond >= 100);
  assert.equal(libc.effectiveUid, Deno.uid());
  libc[Symbol.dispose]();
  libc[Symbol.dispose]();
  assert.throws(() => libc.readText("/proc/self/status"), /closed/);
  assert.throws(() => libc.list("/proc"), /closed/);
  assert.throws(() => libc.close(3), /closed/);
});
