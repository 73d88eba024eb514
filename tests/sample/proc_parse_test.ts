import assert from "node:assert/strict";
import fc from "fast-check";
import {
  parseArgs,
  parseExe,
  parseListeners,
  parseSocketLink,
  parseStat,
  parseUptimeTicks,
} from "../../lib/sample/proc_parse.ts";

/** A stat line with each field's own number in it, so that a wrong column shows. */
function statLine(
  given: { pid: number; name: string; state?: string; fields?: Readonly<Record<number, number>> },
) {
  const rest = Array.from({ length: 49 }, (_, i) => given.fields?.[i + 4] ?? i + 4);
  return `${given.pid} (${given.name}) ${given.state ?? "S"} ${rest.join(" ")}\n`;
}

Deno.test("a process's line is read by the kernel's field numbers", () => {
  assert.deepEqual(parseStat(statLine({ pid: 4711, name: "ollama" })), {
    pid: 4711,
    name: "ollama",
    state: "S",
    parentPid: 4,
    cpuTicks: 14 + 15,
    startTime: 22,
    image: "28 48",
  });
});

Deno.test("a process's name may hold anything, parentheses and spaces included", () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 15 }).filter((name) => !name.includes("\0")), (name) => {
      const stat = parseStat(statLine({ pid: 7, name, fields: { 4: 99 } }));
      assert.deepEqual([stat?.name, stat?.pid, stat?.parentPid], [name, 7, 99]);
    }),
  );
  assert.equal(parseStat(statLine({ pid: 7, name: "a) S 1 (b" }))?.name, "a) S 1 (b");
});

Deno.test("text that is no stat line is none", () => {
  for (const text of ["", "\n", "4711", "x (y) z", "4711 (cut"]) {
    const stat = parseStat(text);
    assert.ok(stat === null, text);
  }
});

Deno.test("arguments end in NUL, and an empty one is one", () => {
  assert.deepEqual(parseArgs("python\0main.py\0\0--port\0" + "8188\0"), ["python", "main.py", "", "--port", "8188"]);
  assert.deepEqual(parseArgs(""), []);
  assert.deepEqual(parseArgs("nginx: worker"), ["nginx: worker"], "a process that renamed itself writes no NUL");
});

Deno.test("a program replaced on disk keeps its path", () => {
  assert.equal(parseExe("/usr/bin/ollama (deleted)"), "/usr/bin/ollama");
  assert.equal(parseExe("/usr/bin/ollama"), "/usr/bin/ollama");
});

const TCP = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2CAA 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 51001 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2CAA 0100007F:D2F0 01 00000000:00000000 00:00000000 00000000     0        0 51002 1 0000000000000000 20 4 30 10 -1
   2: 0100007F:D2F0 0100007F:2CAA 01 00000000:00000000 00:00000000 00000000     0        0 51003 1 0000000000000000 20 4 30 10 -1
   3: 00000000:1FFC 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 51004 1 0000000000000000 100 0 0 10 0
`;
const TCP6 =
  `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000000000000000000000000000:2CAA 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 61001 1 0000000000000000 100 0 0 10 0
`;

Deno.test("only the listening socket of the port counts, not its connections", () => {
  assert.deepEqual(parseListeners(TCP, 11434), ["51001"]);
  assert.deepEqual(parseListeners(TCP, 8188), ["51004"]);
  assert.deepEqual(parseListeners(TCP, 54000), []);
  assert.deepEqual(parseListeners(TCP6, 11434), ["61001"]);
  assert.deepEqual(parseListeners("", 80), []);
});

Deno.test("a descriptor's link names a socket, or something else", () => {
  assert.deepEqual(["socket:[51001]", "pipe:[1]", "/dev/null", "socket:["].map(parseSocketLink), [
    "51001",
    null,
    null,
    null,
  ]);
});

Deno.test("the uptime is told in ticks", () => {
  assert.equal(parseUptimeTicks("350735.47 234388.90\n", 100), 35_073_547);
  assert.equal(parseUptimeTicks("", 100), null);
});
