import assert from "node:assert/strict";
import { LabClock } from "../../lib/lab/lab_clock.ts";
import { type ProcessSpec, ProcTree } from "../../lib/lab/proc_tree.ts";

const SPEC: ProcessSpec = {
  parentPid: 1,
  name: "pt_main_thread_and_more",
  args: ["python", "main.py", "--listen", "127.0.0.1"],
  exe: "/opt/ComfyUI/venv/bin/python3.11",
  cwd: "/opt/ComfyUI",
  cgroup: "/system.slice/comfyui.service",
  uid: 1000,
};

function scene(): { clock: LabClock; tree: ProcTree; read: (path: string) => string } & Disposable {
  const root = Deno.makeTempDirSync();
  const clock = new LabClock();
  const tree = new ProcTree({ root, clock });
  return {
    clock,
    tree,
    read: (path) => Deno.readTextFileSync(`${root}/${path}`),
    [Symbol.dispose]: () => Deno.removeSync(root, { recursive: true }),
  };
}

Deno.test("a process reads as the kernel would show it", () => {
  using box = scene();
  const { pid, startTime } = box.tree.spawn(SPEC);
  assert.ok(pid >= 900_001);
  const stat = box.read(`${pid}/stat`);
  assert.match(stat, new RegExp(`^${pid} \\(pt_main_thread_\\) S 1 `));
  const fields = stat.slice(stat.lastIndexOf(")") + 2).trim().split(" ");
  assert.equal(fields.length, 50, "52 fields less pid and comm");
  assert.equal(fields[19], String(startTime), "field 22");
  assert.equal(box.read(`${pid}/cmdline`), "python\0main.py\0--listen\x00127.0.0.1\0");
  assert.equal(box.read(`${pid}/comm`), "pt_main_thread_\n");
  assert.equal(box.read(`${pid}/cgroup`), "0::/system.slice/comfyui.service\n");
  assert.match(box.read(`${pid}/status`), /^PPid:\t1$/m);
  assert.equal(Deno.readLinkSync(`${box.tree.root}/${pid}/exe`), SPEC.exe);
  assert.equal(Deno.readLinkSync(`${box.tree.root}/${pid}/cwd`), SPEC.cwd);
});

Deno.test("start times are unique even within a tick, and follow the clock", async () => {
  using box = scene();
  const first = box.tree.spawn(SPEC);
  const second = box.tree.spawn(SPEC);
  await box.clock.advance(10_000);
  const third = box.tree.spawn(SPEC);
  assert.equal(second.startTime, first.startTime + 1);
  assert.equal(third.startTime, first.startTime + 1_000);
});

Deno.test("a listening socket leads from the port to the process", () => {
  using box = scene();
  const { pid } = box.tree.spawn(SPEC);
  box.tree.listen(pid, 8188);
  const row = box.read("net/tcp").trim().split("\n")[1]?.trim().split(/\s+/) ?? [];
  assert.equal(row[1], "0100007F:1FFC");
  assert.equal(row[3], "0A");
  assert.equal(row[7], "1000");
  assert.equal(Deno.readLinkSync(`${box.tree.root}/${pid}/fd/3`), `socket:[${row[9]}]`);
  box.tree.exit(pid);
  assert.equal(box.read("net/tcp").trim().split("\n").length, 1);
  assert.throws(() => box.read(`${pid}/stat`), Deno.errors.NotFound);
});

Deno.test("a dying process loses its command line first, and orphans get a new parent", () => {
  using box = scene();
  const parent = box.tree.spawn(SPEC);
  const child = box.tree.spawn({ ...SPEC, parentPid: parent.pid });
  box.tree.work(child.pid, 2.5);
  assert.equal(box.tree.get(child.pid)?.cpuTicks, 253);
  box.tree.orphanChildren(parent.pid);
  assert.match(box.read(`${child.pid}/stat`), /S 1 /);
  box.tree.makeZombie(child.pid);
  assert.equal(box.read(`${child.pid}/cmdline`), "");
  assert.match(box.read(`${child.pid}/stat`), /\) Z 1 /);
  assert.throws(() => Deno.readLinkSync(`${box.tree.root}/${child.pid}/exe`), Deno.errors.NotFound);
});

Deno.test("meminfo adds up to what was set", () => {
  using box = scene();
  box.tree.setHost({ totalBytes: 64e9, applicationBytes: 9e9, cachedBytes: 41e9 });
  const kib = (name: string) => Number(new RegExp(`^${name}: +(\\d+) kB$`, "m").exec(box.read("meminfo"))?.[1]);
  const cached = kib("Cached") + kib("Buffers") + kib("SReclaimable") - kib("Shmem");
  assert.ok(Math.abs(cached * 1024 - 41e9) < 1e5);
  assert.ok(Math.abs((kib("MemTotal") - kib("MemFree") - cached) * 1024 - 9e9) < 1e5);
});

Deno.test("once closed, what still moves in the box is not written, and its folder may be gone", () => {
  using box = scene();
  const { pid } = box.tree.spawn(SPEC);
  box.tree.close();
  Deno.removeSync(box.tree.root, { recursive: true });
  Deno.mkdirSync(box.tree.root);
  box.tree.work(pid, 1);
  box.tree.makeDying(pid);
  box.tree.exit(pid);
  assert.deepEqual([...Deno.readDirSync(box.tree.root)], []);
});
