import assert from "node:assert/strict";
import { ErrnoError } from "../../ffi/errno.ts";
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { openProc } from "../../lib/sample/proc.ts";

const TICKS = 100;

/** Writes one process into a fixture folder; what is null isn't written. */
async function put(root: string, given: {
  pid: number;
  name?: string;
  state?: string;
  startTime?: number;
  image?: number;
  args?: readonly string[] | null;
  exe?: string;
  cpu?: number;
}): Promise<void> {
  const folder = `${root}/${given.pid}`;
  await Deno.mkdir(`${folder}/fd`, { recursive: true });
  const fields = Array.from({ length: 49 }, () => 0);
  fields[0] = 1;
  fields[10] = given.cpu ?? 0;
  fields[18] = given.startTime ?? 100;
  fields[24] = given.image ?? 0;
  await Deno.writeTextFile(
    `${folder}/stat`,
    `${given.pid} (${given.name ?? "x"}) ${given.state ?? "S"} ${fields.join(" ")}\n`,
  );
  if (given.args !== null) {
    await Deno.writeTextFile(
      `${folder}/cmdline`,
      (given.args ?? ["x"]).map((a) => `${a}\0`).join(""),
    );
  }
  await Deno.writeTextFile(`${folder}/cgroup`, "0::/system.slice/x.service\n");
  if (given.exe !== undefined) await Deno.symlink(given.exe, `${folder}/exe`);
}

/** A fixture /proc of a machine that has been up for 1,000 s, and how often each file was read. */
async function withProc(
  run: (
    given: { root: string; libc: Libc; reads: (end: string) => number; refuse: Map<string, string> },
  ) => Promise<void>,
): Promise<void> {
  const root = await Deno.makeTempDir();
  using real = openLibc();
  const counts = new Map<string, number>();
  const refuse = new Map<string, string>();
  const passed = (path: string) => {
    counts.set(path, (counts.get(path) ?? 0) + 1);
    const code = refuse.get(path.slice(root.length + 1));
    if (code !== undefined) throw new ErrnoError("open", code === "EACCES" ? 13 : code === "ESRCH" ? 3 : 5, { path });
    return path;
  };
  // The fields of the real one, and the three calls that proc makes.
  const libc: Libc = {
    ...real,
    ticksPerSecond: TICKS,
    readText: (path) => real.readText(passed(path)),
    readLink: (path) => real.readLink(passed(path)),
    list: (path) => real.list(passed(path)),
  };
  try {
    await Deno.writeTextFile(`${root}/uptime`, "1000.00 0.00\n");
    await run({ root, libc, reads: (end) => counts.get(`${root}/${end}`) ?? 0, refuse });
  } finally {
    await Deno.remove(root, { recursive: true });
  }
}

Deno.test("a process is told with its parent, program, arguments and time", () =>
  withProc(async ({ root, libc }) => {
    await put(root, {
      pid: 4711,
      name: "ollama (new) x",
      args: ["ollama", "serve"],
      exe: "/usr/bin/ollama (deleted)",
      cpu: 42,
    });
    await Deno.writeTextFile(`${root}/version`, "not a process");
    const proc = openProc(libc, root);
    const expected = {
      pid: 4711,
      startTime: 100,
      parentPid: 1,
      state: "S",
      name: "ollama (new) x",
      args: ["ollama", "serve"],
      exe: "/usr/bin/ollama",
      cwd: null,
      cgroup: "0::/system.slice/x.service",
      cpuTicks: 42,
    };
    assert.deepEqual(proc.list(), [expected]);
    assert.deepEqual(proc.process(4711), expected);
    assert.equal(proc.process(4712), null);
    assert.equal(proc.ticksPerSecond, TICKS);
    assert.equal(proc.read("uptime"), "1000.00 0.00\n");
    assert.throws(() => proc.read("none"), ErrnoError);
  }));

Deno.test("what stays the same is read once; processor time is read each time", () =>
  withProc(async ({ root, libc, reads }) => {
    await put(root, { pid: 10, args: ["a"], cpu: 1 });
    const proc = openProc(libc, root);
    proc.list();
    await put(root, { pid: 10, args: ["b"], cpu: 2 });
    const [second] = proc.list();
    assert.deepEqual([second?.args, second?.cpuTicks], [["a"], 2]);
    assert.deepEqual([reads("10/stat"), reads("10/cmdline"), reads("10/exe"), reads("10/cgroup")], [2, 1, 1, 1]);
  }));

Deno.test("a pid that comes again, a new program in the process and a new name are read anew", () =>
  withProc(async ({ root, libc }) => {
    const proc = openProc(libc, root);
    const steps = [
      { startTime: 100, image: 1, name: "sh", args: ["sh", "start.sh"] },
      { startTime: 100, image: 2, name: "sh", args: ["sh", "other.sh"] },
      { startTime: 100, image: 2, name: "python", args: ["python", "main.py"] },
      { startTime: 101, image: 2, name: "python", args: ["python", "else.py"] },
    ];
    for (const step of steps) {
      await put(root, { pid: 10, ...step });
      assert.deepEqual(proc.list()[0]?.args, step.args);
    }
  }));

Deno.test("what a newborn says of itself isn't kept: before exec it shows its parent's arguments", () =>
  withProc(async ({ root, libc }) => {
    const born = (1_000 - 1) * TICKS;
    const proc = openProc(libc, root);
    await put(root, { pid: 10, name: "ollama", startTime: born, args: ["ollama", "serve"] });
    assert.deepEqual(proc.list()[0]?.args, ["ollama", "serve"]);
    await put(root, { pid: 10, name: "ollama", startTime: born, args: ["ollama", "runner"] });
    assert.deepEqual(proc.process(10)?.args, ["ollama", "runner"]);
    await Deno.writeTextFile(`${root}/uptime`, "1002.00 0.00\n");
    assert.deepEqual(proc.list()[0]?.args, ["ollama", "runner"]);
    await put(root, { pid: 10, name: "ollama", startTime: born, args: ["unread"] });
    assert.deepEqual(proc.list()[0]?.args, ["ollama", "runner"], "by now it is kept");
  }));

Deno.test("zombies and kernel threads have no arguments, and a zombie loses those it had", () =>
  withProc(async ({ root, libc }) => {
    const proc = openProc(libc, root);
    await put(root, { pid: 2, name: "kthreadd", args: [] });
    await put(root, { pid: 10, args: ["ollama", "runner"] });
    assert.deepEqual(proc.list().map((entry) => entry.args).sort(), [[], ["ollama", "runner"]]);
    await put(root, { pid: 10, args: [], state: "Z" });
    assert.deepEqual([proc.process(10)?.state, proc.process(10)?.args], ["Z", []]);
  }));

Deno.test("a process may vanish between any two reads", () =>
  withProc(async ({ root, libc, refuse }) => {
    await put(root, { pid: 10 });
    await put(root, { pid: 11, args: null });
    await put(root, { pid: 12 });
    await put(root, { pid: 13 });
    await Deno.writeTextFile(`${root}/13/stat`, "");
    refuse.set("12/stat", "ESRCH");
    const proc = openProc(libc, root);
    assert.deepEqual(proc.list().map((entry) => entry.pid), [10]);
    refuse.set("10/cgroup", "EACCES").set("10/exe", "EACCES").set("10/cwd", "EACCES");
    const hidden = openProc(libc, root).process(10);
    assert.deepEqual([hidden?.exe, hidden?.cwd, hidden?.cgroup], [null, null, null]);
    refuse.set("10/stat", "EIO");
    assert.throws(() => openProc(libc, root).process(10), /EIO/, "a real error is not a vanished process");
  }));

Deno.test("the owner of a listening socket is found once and then only checked", () =>
  withProc(async ({ root, libc, reads }) => {
    const row = (inode: number) =>
      `sl\n 0: 0100007F:2CAA 00000000:0000 0A 0:0 0:0 0 0 0 ${inode} 1\n 1: 0100007F:1F90 00000000:0000 01 0:0 0:0 0 0 0 9 1\n`;
    await Deno.mkdir(`${root}/net`);
    await Deno.writeTextFile(`${root}/net/tcp`, row(51001));
    for (const pid of [10, 11, 12]) await put(root, { pid });
    await Deno.symlink("socket:[51001]", `${root}/11/fd/3`);
    await Deno.symlink("socket:[51001]", `${root}/12/fd/7`);
    await Deno.symlink("/dev/null", `${root}/12/fd/8`);
    const proc = openProc(libc, root);
    assert.deepEqual([...proc.listeners(11434)].sort(), [11, 12]);
    assert.deepEqual([...proc.listeners(11434)].sort(), [11, 12]);
    assert.deepEqual([reads("10/fd"), reads("12/fd/8")], [1, 1]);
    assert.deepEqual(proc.listeners(8080), []);
    await Deno.remove(`${root}/12`, { recursive: true });
    assert.deepEqual(proc.listeners(11434), [11], "an owner that went is looked for again");
    await Deno.writeTextFile(`${root}/net/tcp`, row(51002));
    await Deno.remove(`${root}/11/fd/3`);
    await Deno.symlink("socket:[51002]", `${root}/11/fd/4`);
    assert.deepEqual(proc.listeners(11434), [11], "a server that came back has another socket");
  }));

Deno.test("an owner that can't be seen is not searched for again, but a newcomer is", () =>
  withProc(async ({ root, libc, reads, refuse }) => {
    await Deno.mkdir(`${root}/net`);
    await Deno.writeTextFile(`${root}/net/tcp6`, "sl\n 0: 00:2CAA 00:0000 0A 0:0 0:0 0 0 0 7 1\n");
    await put(root, { pid: 10 });
    refuse.set("10/fd", "EACCES");
    const proc = openProc(libc, root);
    assert.deepEqual([proc.listeners(11434), proc.listeners(11434), reads("10/fd")], [[], [], 1]);
    await put(root, { pid: 11 });
    await Deno.symlink("socket:[7]", `${root}/11/fd/3`);
    assert.deepEqual(proc.listeners(11434), [11]);
  }));

Deno.test("the real /proc: ourselves, our socket, and processes that come and go", async () => {
  using libc = openLibc();
  const proc = openProc(libc, "/proc");
  const self = proc.list().find((entry) => entry.pid === Deno.pid);
  assert.equal(self?.parentPid, Deno.ppid);
  assert.equal(self?.exe, await Deno.realPath(Deno.execPath()));
  assert.deepEqual(self, { ...proc.process(Deno.pid), cpuTicks: self?.cpuTicks, state: self?.state });
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  // as: a TCP listener has a network address.
  const port = (listener.addr as Deno.NetAddr).port;
  assert.deepEqual(proc.listeners(port), [Deno.pid]);
  listener.close();
  assert.deepEqual(proc.listeners(port), []);
  const children = Array.from({ length: 10 }, () => new Deno.Command("true").output());
  for (let look = 0; look < 20; look++) assert.ok(proc.list().some((entry) => entry.pid === Deno.pid));
  await Promise.all(children);
});
