import assert from "node:assert/strict";
import { type Libc, openLibc } from "../../ffi/libc.ts";
import { Failure } from "../../lib/model/failure.ts";
import { KeptFiles } from "../../lib/sample/kept_files.ts";
import { openInside } from "../../lib/sample/open_inside.ts";

interface Given {
  readonly libc: Libc;
  readonly folder: string;
  /** A root, with `blob` in it. */
  readonly root: string;
  /** Beside the root, with `secret` in it. */
  readonly outside: string;
  refused(path: string, roots?: readonly string[]): Failure;
}

async function withModels(run: (given: Given) => void | Promise<void>): Promise<void> {
  using libc = openLibc();
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const root = `${folder}/models`;
  const outside = `${folder}/models-of-others`;
  await Deno.mkdir(root);
  await Deno.mkdir(outside);
  await Deno.writeTextFile(`${root}/blob`, "weights");
  await Deno.writeTextFile(`${outside}/secret`, "secret");
  const refused = (path: string, roots = [root]) => {
    try {
      openInside(libc, path, { roots })[Symbol.dispose]();
    } catch (error) {
      assert.ok(error instanceof Failure, String(error));
      assert.deepEqual(descriptorsBelow(libc, folder), [], "nothing stays open");
      return error;
    }
    throw new assert.AssertionError({ message: `${path} was opened` });
  };
  try {
    await run({ libc, folder, root, outside, refused });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function descriptorsBelow(libc: Libc, folder: string): string[] {
  return libc.list("/proc/self/fd").flatMap((fd) => {
    try {
      const target = libc.readLink(`/proc/self/fd/${fd}`);
      return target.startsWith(folder) ? [target] : [];
    } catch {
      // The descriptor that listed the folder is closed by now.
      return [];
    }
  });
}

function text(libc: Libc, fd: number): string {
  const bytes = new Uint8Array(100);
  return new TextDecoder().decode(bytes.subarray(0, libc.read(fd, bytes)));
}

Deno.test("a file below a root is opened, also through a link that stays inside", () =>
  withModels(async ({ libc, root }) => {
    await Deno.symlink(`${root}/blob`, `${root}/link`);
    for (const path of [`${root}/blob`, `${root}/link`, `${root}//blob`]) {
      using file = openInside(libc, path, { roots: ["/nowhere", root] });
      assert.deepEqual([file.realPath, file.stat.sizeBytes, text(libc, file.fd)], [`${root}/blob`, 7, "weights"]);
    }
    assert.deepEqual(descriptorsBelow(libc, root), []);
  }));

Deno.test("a path outside, and one whose root is only the beginning of its name, are refused", () =>
  withModels(({ outside, refused }) => {
    const failure = refused(`${outside}/secret`);
    assert.equal(failure.code, "forbidden");
    assert.equal(failure.message, `Cannot read ${outside}/secret: it lies outside the model folders`);
    assert.equal(refused("/etc/passwd").code, "forbidden");
    assert.equal(refused(`${outside}/secret`, []).code, "forbidden");
    assert.equal(refused(`${outside}/secret`, ["/"]).code, "forbidden");
    assert.equal(refused(`${outside}/secret`, [""]).code, "forbidden");
  }));

Deno.test("a link that leads out is refused by where it leads", () =>
  withModels(async ({ root, outside, refused }) => {
    await Deno.symlink(`${outside}/secret`, `${root}/file`);
    await Deno.symlink(outside, `${root}/folder`);
    const failure = refused(`${root}/file`);
    assert.equal(failure.code, "forbidden");
    assert.match(failure.message, /\(it leads to .*models-of-others\/secret\)/);
    assert.equal(refused(`${root}/folder/secret`).code, "forbidden");
  }));

Deno.test("..", () =>
  withModels(({ root, outside, refused }) => {
    assert.equal(refused(`${root}/../models-of-others/secret`).code, "invalid_input");
    assert.equal(refused(`${root}/../models/blob`).code, "invalid_input");
    assert.equal(refused("models/blob").code, "invalid_input");
    assert.equal(refused("").code, "invalid_input");
    assert.equal(refused(`${root}/blob\0/../..${outside}`).code, "invalid_input");
  }));

Deno.test("a device, a FIFO and a folder are refused without being opened", () =>
  withModels(async ({ libc, root, refused }) => {
    const fifo = new Deno.Command("mkfifo", { args: [`${root}/fifo`] });
    assert.equal((await fifo.output()).success, true);
    await Deno.mkdir(`${root}/folder`);
    // Opening a FIFO for reading would make its writer's open succeed; O_NONBLOCK only keeps us from waiting.
    const opened: string[][] = [];
    const watched: Libc = Object.create(libc, {
      open: {
        value: (path: string, options: Parameters<Libc["open"]>[1]) => {
          opened.push([...options.flags]);
          return libc.open(path, options);
        },
      },
      ...passedOn(libc),
    });
    for (const path of [`${root}/fifo`, `${root}/folder`]) {
      assert.throws(() => openInside(watched, path, { roots: [root] }), { code: "forbidden" });
    }
    assert.throws(() => openInside(watched, "/dev/null", { roots: ["/dev"] }), {
      message: /no regular file but a char/,
    });
    assert.deepEqual(opened, [["pathOnly"], ["pathOnly"], ["pathOnly"]]);
    assert.equal(refused(`${root}/fifo`).message, `Cannot read ${root}/fifo: it is no regular file but a fifo`);
  }));

/** Its methods need their own object, since they have private fields. */
function passedOn(libc: Libc): PropertyDescriptorMap {
  const names = ["fstat", "readLink", "close", "stat"] as const;
  return Object.fromEntries(names.map((name) => [name, { value: libc[name].bind(libc) }]));
}

Deno.test("what is missing or closed to us says so", () =>
  withModels(({ root, refused }) => {
    const failure = refused(`${root}/none`);
    assert.deepEqual([failure.code, failure.message], ["not_found", `Cannot read ${root}/none: there is no such file`]);
    assert.equal(refused(`${root}/blob/x`).code, "not_found");
  }));

Deno.test("a file swapped between the check and the opening isn't read", () =>
  withModels(async ({ libc, root, outside }) => {
    await Deno.symlink(`${outside}/secret`, `${root}/trap`);
    let swaps = 0;
    const swapping: Libc = Object.create(libc, {
      ...passedOn(libc),
      // The check asks where it lies; right after that answer an attacker puts a link in its place.
      readLink: {
        value: (path: string) => {
          const target = libc.readLink(path);
          Deno.removeSync(`${root}/blob`);
          Deno.renameSync(`${root}/trap`, `${root}/blob`);
          swaps++;
          return target;
        },
      },
      open: { value: libc.open.bind(libc) },
    });
    using file = openInside(swapping, `${root}/blob`, { roots: [root] });
    assert.equal(swaps, 1);
    assert.equal(text(libc, file.fd), "weights", "the file that was judged, not the one that has its name now");
  }));

Deno.test("a FUSE file is opened once and read through that descriptor; the oldest of too many are closed", () =>
  withModels(async ({ libc, root }) => {
    let opens = 0;
    const counting: Libc = Object.create(libc, {
      ...passedOn(libc),
      open: {
        value: (path: string, options: Parameters<Libc["open"]>[1]) => {
          if (options.flags.includes("read")) opens++;
          return libc.open(path, options);
        },
      },
    });
    {
      using kept = new KeptFiles(libc, { fileSystem: () => "fuse" });
      for (let look = 0; look < 3; look++) {
        using file = openInside(counting, `${root}/blob`, { roots: [root], kept });
        assert.equal(file.stat.sizeBytes, 7);
      }
      assert.equal(opens, 1);
      for (let at = 0; at < 70; at++) {
        await Deno.writeTextFile(`${root}/${at}`, "x");
        openInside(counting, `${root}/${at}`, { roots: [root], kept })[Symbol.dispose]();
      }
      assert.equal(descriptorsBelow(libc, root).length, 64);
      assert.ok(!descriptorsBelow(libc, root).includes(`${root}/blob`));
    }
    assert.deepEqual(descriptorsBelow(libc, root), []);
    using usual = new KeptFiles(libc, { fileSystem: () => "ext4" });
    openInside(libc, `${root}/blob`, { roots: [root], kept: usual })[Symbol.dispose]();
    assert.deepEqual(descriptorsBelow(libc, root), [], "elsewhere nothing stays open");
  }));
