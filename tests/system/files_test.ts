import assert from "node:assert/strict";
import { isOfPath, openFiles } from "../../lib/system/files.ts";

const withCode = (code: string) => Object.assign(new Error("no"), { code });

Deno.test("whatever errno a path gives, it costs that path alone", () => {
  for (const code of ["ENOENT", "EIO", "ENOTCONN", "EINVAL", "ESHUTDOWN", "ETIMEDOUT", "EUCLEAN", "EREMOTEIO"]) {
    assert.equal(isOfPath(withCode(code)), true, code);
  }
  // Deno knows no name for this one: a folder that is encrypted and not unlocked.
  assert.equal(isOfPath(new Error("Required key not available (os error 126): stat '/x'")), true);
});

Deno.test("what is wrong with this process, or a defect of ours, isn't the path's", () => {
  for (const code of ["EMFILE", "ENFILE", "ENOMEM", "ERR_INVALID_ARG_TYPE"]) {
    assert.equal(isOfPath(withCode(code)), false, code);
  }
  assert.equal(isOfPath(new TypeError("x is not a function")), false);
  assert.equal(isOfPath("no error at all"), false);
});

Deno.test("a file that can't be read is null, like one that isn't there", async () => {
  const files = openFiles();
  // A name that no file system takes, and on Linux a file whose read is EINVAL.
  assert.equal(await files.stat(`/${"x".repeat(300)}`), null);
  assert.equal(await files.readText("/sys/devices/virtual/net/lo/speed", 10_000), null);
});

Deno.test("gone is only what has no name any more; a disk that fails, or a name that it can't take, says nothing", async () => {
  const files = openFiles();
  assert.deepEqual(await files.find("/etc/passwd/x"), { kind: "gone" });
  assert.deepEqual(await files.find("/no/such/file"), { kind: "gone" });
  assert.equal((await files.find("/etc/passwd")).kind, "there");
  const unknown = await files.find(`/${"x".repeat(300)}`);
  assert.ok(unknown.kind === "unknown");
  assert.match(unknown.reason, /name too long/i);
});
