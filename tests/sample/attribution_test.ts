import assert from "node:assert/strict";
import fc from "fast-check";
import type { ProcEntry } from "../../lib/model/ports.ts";
import type { GpuProcess } from "../../lib/model/sample.ts";
import {
  attribute,
  type Attribution,
  type AttributionInput,
  DEFAULT_DESKTOP,
  NO_MEMORY,
} from "../../lib/sample/attribution.ts";
import type { TenantRole } from "../../lib/sample/tenant_processes.ts";
import { FakeProc } from "./fake_proc.ts";

const MIB = 2 ** 20;

function onCard(pid: number, usedMib: number | null, kinds: GpuProcess["kinds"] = ["compute"]): GpuProcess {
  return { pid, usedBytes: usedMib === null ? null : usedMib * MIB, kinds };
}

function judge(proc: FakeProc, changes: Partial<AttributionInput>): Attribution {
  return attribute({
    usedBytes: 10_000 * MIB,
    gpuProcesses: [],
    smPctByPid: {},
    processes: new Map(proc.list().map((entry) => [entry.pid, entry])),
    roles: new Map(),
    desktop: DEFAULT_DESKTOP,
    memory: NO_MEMORY,
    ...changes,
  });
}

const OLLAMA: TenantRole = { bucket: "ollama", evidence: "child of the Ollama server (pid 100)" };
const COMFY: TenantRole = { bucket: "comfy", evidence: "owns the listening socket of port 8188" };

Deno.test("each process counts for its bucket, with the reason; the rest of the card is unaccounted for", () => {
  const proc = new FakeProc();
  proc.put(101, { name: "ollama", exe: null, args: ["/usr/local/bin/ollama", "runner"] });
  proc.put(200, { name: "pt_main_thread", exe: "/usr/bin/python3.12", args: ["python", "main.py"] });
  proc.put(300, { name: "gnome-shell", exe: "/usr/bin/gnome-shell", args: ["/usr/bin/gnome-shell"] });
  proc.put(400, { name: "python", exe: "/usr/bin/python3.12", args: ["python", "whisper_relay.py"] });
  const { breakdown } = judge(proc, {
    gpuProcesses: [onCard(101, 5_000), onCard(200, 3_000), onCard(300, 4, ["graphics"]), onCard(400, 842)],
    roles: new Map([[101, OLLAMA], [200, COMFY]]),
    smPctByPid: { 200: 97 },
  });
  const { processes, ...buckets } = breakdown;
  assert.deepEqual(buckets, {
    ollamaBytes: 5_000 * MIB,
    comfyBytes: 3_000 * MIB,
    desktopBytes: 4 * MIB,
    unmanagedBytes: 842 * MIB,
    unaccountedBytes: 1_154 * MIB,
  });
  assert.deepEqual(processes.map(({ pid, name, bucket, smPct }) => [pid, name, bucket, smPct]), [
    [101, "ollama", "ollama", 0],
    [200, "python3.12", "comfy", 97],
    [300, "gnome-shell", "desktop", 0],
    [400, "python3.12", "unmanaged", 0],
  ]);
  assert.deepEqual(processes.map(({ evidence }) => evidence), [
    OLLAMA.evidence,
    COMFY.evidence,
    "gnome-shell is in the list of desktop programs",
    "neither tenant's: no relation to Ollama or ComfyUI was found",
  ]);
  assert.equal(processes[3]?.command, "python whisper_relay.py");
  assert.equal(processes[3]?.startTime, 400);
});

Deno.test("a python is nobody's by its name alone", () => {
  const proc = new FakeProc();
  proc.put(1, { name: "python", args: ["python", "main.py"], cwd: "/opt/ComfyUI" });
  const { breakdown } = judge(proc, { gpuProcesses: [onCard(1, 10)] });
  assert.equal(breakdown.processes[0]?.bucket, "unmanaged");
});

for (
  const [title, entry, bucket] of [
    ["by its executable", { exe: "/usr/lib/xorg/Xorg", name: "X" }, "desktop"],
    ["by a name the kernel cut to 15 letters", { exe: null, args: [], name: "gnome-shell-cal" }, "unmanaged"],
    ["by its name where the executable can't be read", { exe: null, args: [], name: "kwin_wayland" }, "desktop"],
    ["by its first argument", { exe: null, args: ["/usr/bin/sway"], name: "x" }, "desktop"],
    ["not by an argument", { exe: "/usr/bin/python3", args: ["python3", "Xorg"], name: "python3" }, "unmanaged"],
    [
      "not by a name it gave itself all in one",
      { exe: null, args: ["chrome --path=/usr/bin/sway"], name: "chrome" },
      "unmanaged",
    ],
  ] as const
) {
  Deno.test(`a display server is recognised ${title}: ${bucket}`, () => {
    const proc = new FakeProc();
    proc.put(7, entry);
    assert.equal(judge(proc, { gpuProcesses: [onCard(7, 1)] }).breakdown.processes[0]?.bucket, bucket);
  });
}

Deno.test("the list of desktop programs is the owner's", () => {
  const proc = new FakeProc();
  proc.put(7, { exe: "/usr/bin/obs", name: "obs" });
  const { breakdown } = judge(proc, { gpuProcesses: [onCard(7, 50)], desktop: ["obs"] });
  assert.deepEqual([breakdown.desktopBytes, breakdown.unmanagedBytes], [50 * MIB, 0]);
});

Deno.test("a tenant's desktop program is the tenant's", () => {
  const proc = new FakeProc();
  proc.put(7, { exe: "/usr/bin/Xvnc", name: "Xvnc" });
  const { breakdown } = judge(proc, { gpuProcesses: [onCard(7, 50)], roles: new Map([[7, COMFY]]) });
  assert.equal(breakdown.comfyBytes, 50 * MIB);
});

Deno.test("unknown bytes make their bucket unknown, and what is unaccounted for; the others stay", () => {
  const proc = new FakeProc();
  for (const pid of [101, 102, 400]) proc.put(pid);
  const { breakdown } = judge(proc, {
    gpuProcesses: [onCard(101, null), onCard(102, 100), onCard(400, 50)],
    roles: new Map([[101, OLLAMA], [102, OLLAMA]]),
  });
  assert.deepEqual(
    [breakdown.ollamaBytes, breakdown.comfyBytes, breakdown.unmanagedBytes, breakdown.unaccountedBytes],
    [null, 0, 50 * MIB, null],
  );
});

Deno.test("without the driver's list nothing is attributed, and nothing forgotten", () => {
  const proc = new FakeProc();
  proc.put(101);
  const before = judge(proc, { gpuProcesses: [onCard(101, 5)], roles: new Map([[101, OLLAMA]]) });
  const { breakdown, memory } = judge(proc, { gpuProcesses: null, memory: before.memory });
  assert.deepEqual(breakdown, {
    ollamaBytes: null,
    comfyBytes: null,
    desktopBytes: null,
    unmanagedBytes: null,
    unaccountedBytes: null,
    processes: [],
  });
  assert.equal(memory, before.memory);
});

Deno.test("an empty list means nobody is there", () => {
  const { breakdown } = judge(new FakeProc(), { usedBytes: 300 * MIB });
  assert.deepEqual([breakdown.ollamaBytes, breakdown.unaccountedBytes], [0, 300 * MIB]);
});

Deno.test("the two readings aren't one snapshot: unaccounted is never below 0, and unknown without a total", () => {
  const proc = new FakeProc();
  proc.put(1);
  const less = judge(proc, { usedBytes: 118 * MIB, gpuProcesses: [onCard(1, 543)] });
  assert.equal(less.breakdown.unaccountedBytes, 0);
  const unknown = judge(proc, { usedBytes: null, gpuProcesses: [onCard(1, 543)] });
  assert.deepEqual([unknown.breakdown.unaccountedBytes, unknown.breakdown.unmanagedBytes], [null, 543 * MIB]);
});

Deno.test("a dying process keeps its bucket, its name and its command line", () => {
  const proc = new FakeProc();
  const args = ["/usr/local/bin/ollama", "runner", "--model", "x"];
  proc.put(101, { name: "ollama", exe: "/usr/local/bin/ollama", args });
  const alive = judge(proc, { gpuProcesses: [onCard(101, 5)], roles: new Map([[101, OLLAMA]]) });
  proc.put(101, { args: [], exe: null, state: "D", name: "ollama" });
  let state = judge(proc, { gpuProcesses: [onCard(101, 5)], memory: alive.memory });
  for (let again = 0; again < 2; again++) {
    const [process] = state.breakdown.processes;
    assert.deepEqual([process?.bucket, process?.name, process?.command], ["ollama", "ollama", args.join(" ")]);
    assert.equal(process?.evidence, `seen before: ${OLLAMA.evidence}`);
    state = judge(proc, { gpuProcesses: [onCard(101, 5)], memory: state.memory });
  }
});

Deno.test("a bucket belongs to a process, not to its pid", () => {
  const proc = new FakeProc();
  proc.put(101, { startTime: 10 });
  const before = judge(proc, { gpuProcesses: [onCard(101, 5)], roles: new Map([[101, OLLAMA]]) });
  proc.put(101, { startTime: 20 });
  const after = judge(proc, { gpuProcesses: [onCard(101, 5)], memory: before.memory });
  assert.equal(after.breakdown.processes[0]?.bucket, "unmanaged");
});

Deno.test("what was nobody's is a tenant's once it is recognised", () => {
  const proc = new FakeProc();
  proc.put(101);
  const before = judge(proc, { gpuProcesses: [onCard(101, 5)] });
  assert.equal(before.breakdown.processes[0]?.bucket, "unmanaged");
  const after = judge(proc, { gpuProcesses: [onCard(101, 5)], roles: new Map([[101, OLLAMA]]), memory: before.memory });
  assert.equal(after.breakdown.processes[0]?.bucket, "ollama");
});

Deno.test("a zombie, and one that has left /proc, are gone: the driver's rest is unaccounted for", () => {
  const proc = new FakeProc();
  for (const pid of [101, 400]) proc.put(pid);
  const gpuProcesses = [onCard(101, 5_000), onCard(400, 50)];
  const before = judge(proc, { gpuProcesses, roles: new Map([[101, OLLAMA]]) });
  proc.put(101, { state: "Z", args: [] });
  proc.gone(400);
  const after = judge(proc, { gpuProcesses, memory: before.memory });
  assert.deepEqual(after.breakdown.processes, []);
  assert.deepEqual([after.breakdown.ollamaBytes, after.breakdown.unmanagedBytes], [0, 0]);
  assert.equal(after.breakdown.unaccountedBytes, 10_000 * MIB);
});

Deno.test("a pid that /proc never showed is unmanaged, and says why", () => {
  const { breakdown } = judge(new FakeProc(), { gpuProcesses: [onCard(77, 20_000)] });
  assert.deepEqual(breakdown.processes, [{
    pid: 77,
    startTime: 0,
    name: "unknown",
    command: null,
    bucket: "unmanaged",
    usedBytes: 20_000 * MIB,
    smPct: 0,
    evidence: "not visible in /proc: hidden, or in another PID namespace",
  }]);
  const blind = judge(new FakeProc(), { gpuProcesses: [onCard(77, 1)], processes: null, smPctByPid: null });
  assert.deepEqual(
    [blind.breakdown.processes[0]?.evidence, blind.breakdown.processes[0]?.smPct],
    ["processes can't be read", null],
  );
});

Deno.test("the buckets and the unaccounted rest add up to the card's use", () => {
  const row = fc.record({ pid: fc.integer({ min: 1, max: 40 }), mib: fc.integer({ min: 0, max: 9_000 }) });
  const rows = fc.uniqueArray(row, { selector: ({ pid }) => pid, maxLength: 12 });
  const bucket = fc.constantFrom(null, "ollama" as const, "comfy" as const);
  fc.assert(
    fc.property(rows, fc.array(bucket, { minLength: 41, maxLength: 41 }), fc.nat(20_000), (list, buckets, used) => {
      const processes = new Map<number, ProcEntry>();
      const roles = new Map<number, TenantRole>();
      const proc = new FakeProc();
      for (const { pid } of list) {
        processes.set(pid, proc.put(pid));
        const role = buckets[pid];
        if (role) roles.set(pid, { bucket: role, evidence: "e" });
      }
      const gpuProcesses = list.map(({ pid, mib }) => onCard(pid, mib));
      const { breakdown: b } = judge(proc, { usedBytes: used * MIB, gpuProcesses, processes, roles });
      const sum = (b.ollamaBytes ?? NaN) + (b.comfyBytes ?? NaN) + (b.desktopBytes ?? NaN) + (b.unmanagedBytes ?? NaN);
      assert.equal(sum, list.reduce((total, { mib }) => total + mib * MIB, 0));
      assert.equal(b.unaccountedBytes, Math.max(0, used * MIB - sum));
    }),
  );
});
