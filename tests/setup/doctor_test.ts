import assert from "node:assert/strict";
import { Failure } from "../../lib/model/failure.ts";
import { operations } from "../../lib/operations/registry.ts";
import { ASKED, examine, writeBundle } from "../../lib/setup/doctor.ts";
import { tempFolder } from "../record/temp_folder.ts";

const AT = "2026-01-01T00:00:00.000Z";
const HOME = "/home/ada";

async function bundle(answer: (operation: string) => unknown): Promise<string> {
  const found = await examine({
    at: AT,
    where: "unix:/home/ada/x.sock",
    home: HOME,
    ask: (operation) => Promise.resolve().then(() => answer(operation)),
    readFile: (path) => {
      if (path === "/proc/version") return "Linux version 6\n";
      throw new Deno.errors.NotFound(path);
    },
  });
  return JSON.stringify(found);
}

Deno.test("everything that is asked for is an operation that only looks", () => {
  for (const [name] of ASKED) assert.equal(operations.find((one) => one.name === name)?.access, "read", name);
});

Deno.test("no secret, no user's name and no foreign host gets into the bundle", async () => {
  const text = await bundle(() => ({
    path: "/home/ada/models/x.gguf",
    other: "/home/grace/models",
    token: "hush-hush",
    tokens: [{ name: "laptop", secret: "hush-hush" }],
    tokens_per_sec: 42.5,
    header: "Authorization: Bearer hush-hush",
    url: "http://gpubox.lan:11434/api/tags",
    local: "http://127.0.0.1:11434",
    link: "/login?code=hush-hush",
  }));
  for (const leak of ["hush", "ada", "grace", "gpubox"]) assert.ok(!text.includes(leak), `${leak} is in ${text}`);
  for (const kept of ["~/models/x.gguf", "42.5", "http://127.0.0.1:11434", "laptop", "http://[host]:11434/api/tags"]) {
    assert.ok(text.includes(kept), kept);
  }
});

Deno.test("what can't be had says why in its place, and the rest stands", async () => {
  const parsed = JSON.parse(
    await bundle((operation) => {
      if (operation === "health") throw new Failure("unavailable", "Cannot reach it");
      return { operation };
    }),
  );
  assert.deepEqual(parsed.answers.health, { error: "unavailable", message: "Cannot reach it" });
  assert.deepEqual(parsed.answers.stats, { operation: "stats" });
  assert.equal(parsed.files["/proc/version"], "Linux version 6");
  assert.equal(parsed.files["/proc/driver/nvidia/version"], null);
});

Deno.test("a bundle is for its owner's eyes, and never takes another file's place", () => {
  using folder = tempFolder();
  const path = `${folder.path}/bundle.json`;
  writeBundle(path, { a: 1 });
  assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o600);
  assert.throws(() => writeBundle(path, { a: 2 }), { code: "busy" });
  assert.deepEqual(JSON.parse(Deno.readTextFileSync(path)), { a: 1 });
});
