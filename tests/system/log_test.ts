import assert from "node:assert/strict";
import { LOG_FORMATS, type LogFormat, type LogLevel, redact, stderrLog } from "../../lib/system/log.ts";

function capture(format: LogFormat, level: LogLevel = "debug") {
  const lines: string[] = [];
  const log = stderrLog({ level, format, write: (line) => lines.push(line), wallMs: () => 1_764_547_200_000 });
  return { log, lines };
}

Deno.test("text: time, level, message and fields in one line", () => {
  const { log, lines } = capture("text");
  log.info("Yield released", {
    freed_gb: 12.9,
    models: ["a:latest"],
    note: "two words",
    url: "http://127.0.0.1:11434",
  });
  assert.deepEqual(lines, [
    '2025-12-01T00:00:00.000Z INFO  Yield released freed_gb=12.9 models=["a:latest"] note="two words" url=http://127.0.0.1:11434',
  ]);
});

Deno.test("json: an object a line, its own names first", () => {
  const { log, lines } = capture("json");
  log.warn("Cannot reach Ollama", { attempt: 2n });
  assert.deepEqual(JSON.parse(lines[0] ?? ""), {
    at: "2025-12-01T00:00:00.000Z",
    level: "warn",
    message: "Cannot reach Ollama",
    attempt: "2",
  });
});

Deno.test("journal: the priority in front and no time", () => {
  const { log, lines } = capture("journal");
  log.error("Broken");
  log.debug("Detail");
  assert.deepEqual(lines, ["<3>Broken", "<7>Detail"]);
});

Deno.test("entries below the level are dropped", () => {
  const { log, lines } = capture("text", "warn");
  log.debug("a");
  log.info("b");
  log.warn("c");
  log.error("d");
  assert.equal(lines.length, 2);
});

Deno.test("whatever a caller logs stays one line and keeps its secrets", () => {
  for (const format of LOG_FORMATS) {
    const { log, lines } = capture(format);
    const cyclic: Record<string, unknown> = { token: "s3cret" };
    cyclic["self"] = cyclic;
    log.error("Forged\n<3>entry \x1b[2J Bearer s3cret-token", {
      error: new Error("Cannot fetch http://me:s3cret@box/", { cause: new TypeError("deep?token=s3cret&x=1") }),
      headers: { Authorization: "Bearer s3cret", cookie: "hs=s3cret" },
      cyclic,
      lambda: () => 1,
      nothing: undefined,
    });
    assert.equal(lines.length, 1);
    const line = lines[0] ?? "";
    assert.ok(!line.includes("s3cret"), line);
    assert.ok(!line.includes("\n") && !line.includes("\x1b"), line);
    assert.ok(line.includes("TypeError") && line.includes("x=1"), line);
  }
});

Deno.test("redact leaves ordinary text alone", () => {
  const text = "Cannot open http://127.0.0.1:8188/ws?clientId=1 at 10:42 for a@b";
  assert.equal(redact(text), text);
});
