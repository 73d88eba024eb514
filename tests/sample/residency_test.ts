import assert from "node:assert/strict";
import { ErrnoError } from "../../ffi/errno.ts";
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { openPageCalls, type PageCalls } from "../../ffi/page_calls.ts";
import type { MeasuredResidency, Residency, UnmeasurableResidency } from "../../lib/model/page_cache.ts";
import { MIB } from "../../lib/model/units.ts";
import { KeptFiles } from "../../lib/sample/kept_files.ts";
import { measureResidency, type ResidencyTools } from "../../lib/sample/residency.ts";
import { RootFolders } from "../../lib/sample/root_folders.ts";
import { systemClock } from "../../lib/system/clock.ts";
import { type CachedFile, cachedFile, PAGE, range, whyNotHere } from "./cached_file.ts";
import { stranger, whyNoStranger } from "./stranger.ts";

const noDisk = whyNotHere();
const noStranger = noDisk ?? whyNoStranger();
const onDisk = { ignore: noDisk !== null };
const asStranger = { ignore: noStranger !== null };
for (const reason of new Set([noDisk, noStranger])) {
  if (reason !== null) console.log(`tests/sample/residency_test.ts: in part skipped, since ${reason}`);
}

function measured(residency: Residency | undefined): MeasuredResidency {
  assert.equal(residency?.kind, "measured", JSON.stringify(residency));
  return residency;
}

function unmeasurable(residency: Residency | undefined): UnmeasurableResidency {
  assert.equal(residency?.kind, "unmeasurable", JSON.stringify(residency));
  return residency;
}

function toolsOf(libc: Libc, pages = openPageCalls()): ResidencyTools & Disposable {
  const kept = new KeptFiles(libc, pages);
  return { libc, pages, clock: systemClock(), kept, [Symbol.dispose]: () => pages[Symbol.dispose]() };
}

function figure({ folder, path, libc }: CachedFile): Residency {
  using tools = toolsOf(libc);
  return measureResidency(tools, path, { roots: [folder], purpose: "figure" });
}

/** Every third of a file's pages, and its head. */
function* patchy(pages: number): Generator<number> {
  yield* range(0, pages / 8);
  yield* range(pages / 8, pages, 3);
}

Deno.test({
  name: "our own file is counted by the kernel, page by page",
  ...onDisk,
  async fn() {
    await using file = await cachedFile();
    assert.equal(file.evict(), 0);
    assert.equal(measured(figure(file)).share, 0);
    file.load(range(0, 1_024));
    const quarter = measured(figure(file));
    assert.deepEqual(
      [quarter.method, quarter.share, quarter.low, quarter.high, quarter.isExact, quarter.samples],
      ["cachestat", 0.25, 0.25, 0.25, true, null],
    );
    assert.deepEqual(quarter.disturbance, { readBytes: 0, droppedBytes: 0 });
    assert.equal(quarter.residentBytes, 4 * MIB);
    assert.equal(file.resident(), 1_024, "counting loads nothing");
  },
});

Deno.test({
  name: "a last page that isn't full counts as the bytes it holds",
  ...onDisk,
  async fn() {
    await using file = await cachedFile({ sizeBytes: 3 * PAGE + 100 });
    file.load(range(0, 4));
    const all = measured(figure(file));
    assert.deepEqual([all.residentBytes, all.share], [3 * PAGE + 100, 1]);
  },
});

Deno.test("an empty file is all there", async () => {
  using libc = openLibc();
  using tools = toolsOf(libc);
  const folder = await Deno.realPath(await Deno.makeTempDir());
  await Deno.writeTextFile(`${folder}/empty`, "");
  const empty = measured(measureResidency(tools, `${folder}/empty`, { roots: [folder], purpose: "figure" }));
  assert.deepEqual([empty.method, empty.share, empty.sizeBytes], ["empty", 1, 0]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test({
  name: "what lies in memory anyway is resident by nature",
  ignore: whyNotHere("/dev/shm") !== "/dev/shm is on tmpfs",
  async fn() {
    using libc = openLibc();
    using tools = toolsOf(libc);
    const folder = await Deno.makeTempDir({ dir: "/dev/shm" });
    await Deno.writeFile(`${folder}/blob`, new Uint8Array(5 * PAGE));
    const found = measured(measureResidency(tools, `${folder}/blob`, { roots: [folder], purpose: "figure" }));
    assert.deepEqual([found.method, found.share, found.isExact], ["memory", 1, true]);
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test({
  name: "a stranger's file is sampled: cachestat refuses it, and mincore would say it is all there",
  ...asStranger,
  async fn() {
    await using file = await cachedFile({ sizeBytes: 32 * MIB });
    using nobody = await stranger();
    const pages = file.sizeBytes / PAGE;
    assert.equal(file.evict(), 0);
    file.load(patchy(pages));
    const truth = file.resident() / pages;
    const [residency] = await nobody.ask({
      path: file.path,
      question: { roots: [file.folder], purpose: "figure" },
      times: 1,
    });
    const found = measured(residency);
    assert.deepEqual([found.method, found.samples, found.isExact], ["nowait", 1_024, false]);
    assert.ok(found.low <= truth && truth <= found.high, `${found.low}–${found.high} misses ${truth}`);
    // Five standard deviations of free samples; strata vary less.
    assert.ok(Math.abs(found.share - truth) < 0.08, `${found.share} is not ${truth}`);
    assert.ok(found.high < 1);
    const { readBytes, droppedBytes } = found.disturbance;
    assert.ok(readBytes > 0 && droppedBytes > 0 && droppedBytes <= readBytes);
    const left = (file.resident() / pages - truth) * file.sizeBytes;
    assert.ok(Math.abs(left) < 0.01 * file.sizeBytes, `${left} bytes stay of the ${readBytes} it read`);
  },
});

Deno.test({
  name: "all and nothing are told apart by a stranger, too",
  ...asStranger,
  async fn() {
    await using file = await cachedFile();
    using nobody = await stranger();
    const ask = async (purpose: "figure" | "probe") =>
      measured((await nobody.ask({ path: file.path, question: { roots: [file.folder], purpose }, times: 1 }))[0]);
    const askFull = async (purpose: "figure" | "probe") => {
      const pages = file.sizeBytes / PAGE;
      // Where the system takes pages back meanwhile, what was found is true and not the question.
      for (let turn = 0; turn < 10; turn++) {
        file.load(range(0, pages));
        const found = await ask(purpose);
        if (file.resident() === pages) return found;
      }
      throw new Error("The file never stayed in memory while it was looked at");
    };
    const all = await askFull("figure");
    assert.deepEqual([all.share, all.high, all.disturbance.readBytes], [1, 1, 0]);
    assert.ok(all.low > 0.99 && all.low < 1, "never certain of what it hasn't seen");
    const allProbed = await askFull("probe");
    assert.deepEqual([allProbed.share, allProbed.samples], [1, 64]);
    file.evict();
    const none = await ask("figure");
    assert.deepEqual([none.share, none.low], [0, 0]);
    file.evict();
    const noneProbed = await ask("probe");
    assert.deepEqual([noneProbed.share, noneProbed.samples], [0, 1], "the first absent page answers");
  },
});

Deno.test({
  name: "looking again and again warms nothing",
  ...asStranger,
  async fn() {
    await using file = await cachedFile();
    using nobody = await stranger();
    file.evict();
    file.load(range(0, 1_000));
    const before = file.resident();
    const found = await nobody.ask({
      path: file.path,
      question: { roots: [file.folder], purpose: "figure" },
      times: 5,
    });
    assert.ok(found.every((one) => Math.abs(measured(one).share - 1_000 / 4_096) < 0.08), JSON.stringify(found));
    assert.ok(file.resident() - before < 0.01 * 4_096, `${file.resident() - before} pages more`);
  },
});

Deno.test({
  name: "a small stranger's file is looked at page by page",
  ...asStranger,
  async fn() {
    await using file = await cachedFile({ sizeBytes: 200 * PAGE });
    using nobody = await stranger();
    file.evict();
    file.load(range(0, 50));
    const [residency] = await nobody.ask({
      path: file.path,
      question: { roots: [file.folder], purpose: "figure" },
      times: 1,
    });
    const found = measured(residency);
    assert.deepEqual([found.share, found.samples, found.isExact, found.low, found.high], [0.25, 200, true, 0.25, 0.25]);
  },
});

Deno.test({
  name: "holes read like resident pages, so a stranger's sparse file is unmeasurable, and ours is counted",
  ...asStranger,
  async fn() {
    await using file = await cachedFile();
    using nobody = await stranger();
    const path = `${file.folder}/sparse`;
    await Deno.writeTextFile(path, "");
    await Deno.truncate(path, 64 * MIB);
    const question = { roots: [file.folder], purpose: "figure" } as const;
    const [residency] = await nobody.ask({ path, question, times: 1 });
    assert.equal(unmeasurable(residency).cause, "sparse");
    using tools = toolsOf(file.libc);
    assert.equal(measured(measureResidency(tools, path, question)).share, 0);
  },
});

/** Tools that sample, and something that happens when a file's state is asked by name, which is after the measuring. */
function meddling(libc: Libc, meddle: () => void): ResidencyTools & Disposable {
  const names = ["open", "fstat", "readLink", "close"] as const;
  const watched: Libc = Object.create(libc, {
    ...Object.fromEntries(names.map((name) => [name, { value: libc[name].bind(libc) }])),
    stat: {
      value: (...args: Parameters<Libc["stat"]>) => {
        meddle();
        return libc.stat(...args);
      },
    },
  });
  const pages = openPageCalls();
  const refusing: PageCalls = Object.create(pages, {
    ...Object.fromEntries(
      (["advise", "usage", "readByte", "firstHole", "fileSystem", "mayWrite"] as const)
        .map((name) => [name, { value: pages[name].bind(pages) }]),
    ),
    cachestat: {
      value: () => {
        throw new ErrnoError("cachestat", 1);
      },
    },
    [Symbol.dispose]: { value: () => pages[Symbol.dispose]() },
  });
  return toolsOf(watched, refusing);
}

Deno.test({
  name: "a file that grows, is replaced or goes while it is sampled has no figure",
  ...onDisk,
  async fn() {
    await using file = await cachedFile();
    const { libc, folder } = file;
    const path = `${folder}/changing`;
    const causeAfter = async (meddle: () => void) => {
      await Deno.writeFile(path, new Uint8Array(10 * PAGE));
      using tools = meddling(libc, meddle);
      return unmeasurable(measureResidency(tools, path, { roots: [folder], purpose: "figure" })).cause;
    };
    assert.equal(await causeAfter(() => Deno.truncateSync(path, 20 * PAGE)), "changed");
    assert.equal(await causeAfter(() => Deno.truncateSync(path, PAGE)), "changed");
    const replace = () => {
      Deno.writeFileSync(`${folder}/new`, new Uint8Array(10 * PAGE));
      Deno.renameSync(`${folder}/new`, path);
    };
    assert.equal(await causeAfter(replace), "changed");
    assert.equal(await causeAfter(() => Deno.removeSync(path)), "gone");
  },
});

Deno.test({
  name: "of many files each is opened the short way, and what that refuses is judged the careful way",
  ...onDisk,
  async fn() {
    await using file = await cachedFile();
    const { libc, pages, folder, path } = file;
    await Deno.symlink(path, `${folder}/inside`);
    await Deno.symlink("/etc/passwd", `${folder}/outside`);
    await Deno.mkdir(`${folder}/sub`);
    await Deno.copyFile(path, `${folder}/sub/blob`);
    await Deno.symlink("/etc", `${folder}/sub/etc`);
    const question = { roots: ["/nowhere", folder], purpose: "figure" } as const;
    using folders = new RootFolders(libc, pages, question.roots);
    const shortWay: string[] = [];
    const watched = Object.create(folders, {
      learn: { value: folders.learn.bind(folders) },
      open: {
        value: (name: string) => {
          const opened = folders.open(name);
          if (opened !== null) shortWay.push(name.slice(folder.length));
          return opened;
        },
      },
    });
    const tools: ResidencyTools = {
      libc,
      pages,
      clock: systemClock(),
      kept: new KeptFiles(libc, pages),
      folders: watched,
    };
    const answer = (name: string) => {
      const found = measureResidency(tools, `${folder}${name}`, question);
      return found.kind === "measured" ? found.method : found.cause;
    };
    const names = ["/blob", "/sub/blob", "/inside", "/outside", "/sub/etc/passwd", "/none", "/sub", "/../x"];
    assert.deepEqual(names.map(answer), [
      "cachestat",
      "cachestat",
      "cachestat",
      "refused",
      "refused",
      "gone",
      "refused",
      "refused",
    ]);
    assert.deepEqual(shortWay, ["/sub/blob"], "the first told what its device is; links are never followed");
    folders.learn(libc.stat(path).device, "fuse");
    assert.equal(folders.open(path), null, "a FUSE file isn't opened in passing");
  },
});

Deno.test("what mustn't be read is unmeasurable with the refusal's reason", () => {
  using libc = openLibc();
  using tools = toolsOf(libc);
  const question = { roots: ["/nowhere"], purpose: "figure" } as const;
  const outside = unmeasurable(measureResidency(tools, "/etc/passwd", question));
  assert.equal(outside.cause, "refused");
  assert.match(outside.reason, /outside the model folders/);
  assert.equal(unmeasurable(measureResidency(tools, "/nowhere/blob", question)).cause, "gone");
});

async function mountOverlay(folder: string): Promise<boolean> {
  const at = (name: string) => `${folder}/${name}`;
  for (const name of ["upper", "work", "merged"]) await Deno.mkdir(at(name));
  const layers = `lowerdir=${folder}/lower,upperdir=${at("upper")},workdir=${at("work")}`;
  const command = new Deno.Command("mount", { args: ["-t", "overlay", "overlay", "-o", layers, at("merged")] });
  return (await command.output()).success;
}

Deno.test({
  name: "an overlay, where cachestat says 0: mincore for ours, block reads for a stranger",
  ...asStranger,
  async fn() {
    await using file = await cachedFile();
    await Deno.mkdir(`${file.folder}/lower`);
    await Deno.rename(file.path, `${file.folder}/lower/blob`);
    if (!await mountOverlay(file.folder)) return console.log("skipped, since an overlay can't be mounted here");
    try {
      const path = `${file.folder}/merged/blob`;
      const question = { roots: [`${file.folder}/merged`], purpose: "figure" } as const;
      file.evict();
      file.load(range(0, 1_024));
      using tools = toolsOf(file.libc);
      const ours = measured(measureResidency(tools, path, question));
      assert.deepEqual([ours.method, ours.share], ["mincore", 0.25]);
      using nobody = await stranger();
      const theirs = measured((await nobody.ask({ path, question, times: 1 }))[0]);
      assert.equal(theirs.method, "inblock");
      assert.ok(Math.abs(theirs.share - 0.25) < 0.08, String(theirs.share));
    } finally {
      await new Deno.Command("umount", { args: [`${file.folder}/merged`] }).output();
    }
  },
});
