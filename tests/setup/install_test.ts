import assert from "node:assert/strict";
import { install, uninstall } from "../../lib/setup/install.ts";
import { tempFolder } from "../record/temp_folder.ts";

const UNIT = "/etc/systemd/system/hyperswap.service";
const CONFIG = "/etc/hyperswap/hyperswap.toml";
const BINARY = "/usr/local/bin/hyperswap";

function inRoot(work: (root: string, actions: (answer: ReturnType<typeof install>) => Record<string, string>) => void) {
  using folder = tempFolder();
  work(folder.path, ({ steps }) => Object.fromEntries(steps.map(({ path, action }) => [path, action])));
}

function programIn(root: string) {
  const path = `${root}/downloaded`;
  Deno.writeTextFileSync(path, "a program");
  return { path, args: [], isBinary: true };
}

Deno.test("install puts the files in their places and names what is left to do", () =>
  inRoot((root, actions) => {
    const program = programIn(root);
    const answer = install({ program, root, isDryRun: false });
    assert.deepEqual(new Set(Object.values(actions(answer))), new Set(["write"]));
    assert.equal(Deno.readTextFileSync(root + BINARY), "a program");
    assert.equal((Deno.statSync(root + BINARY).mode ?? 0) & 0o777, 0o755);
    assert.equal((Deno.statSync(root + CONFIG).mode ?? 0) & 0o777, 0o640);
    assert.match(Deno.readTextFileSync(root + UNIT), /^ExecStart=\/usr\/local\/bin\/hyperswap serve$/m);
    assert.ok(answer.next.includes("systemctl enable --now hyperswap"));
    assert.match(answer.warning, /daemon-reload can take the GPU away from containers/);
    const again = actions(install({ program, root, isDryRun: false }));
    assert.deepEqual(new Set(Object.values(again)), new Set(["same"]));
  }));

Deno.test("a dry run says the same and touches nothing", () =>
  inRoot((root, actions) => {
    const program = programIn(root);
    const answer = install({ program, root, isDryRun: true });
    assert.equal(actions(answer)[UNIT], "write");
    assert.deepEqual([...Deno.readDirSync(root)].map(({ name }) => name), ["downloaded"]);
  }));

Deno.test("a changed file is never overwritten, one of an older version is", () =>
  inRoot((root, actions) => {
    const program = programIn(root);
    install({ program, root, isDryRun: false });
    Deno.writeTextFileSync(root + CONFIG, "[server]\nport = 9191\n");
    Deno.writeTextFileSync(program.path, "a newer program");
    const answer = actions(install({ program, root, isDryRun: false }));
    assert.deepEqual([answer[CONFIG], answer[BINARY], answer[UNIT]], ["keep", "replace", "same"]);
    assert.equal(Deno.readTextFileSync(root + CONFIG), "[server]\nport = 9191\n");
    assert.equal(Deno.readTextFileSync(root + BINARY), "a newer program");
  }));

Deno.test("a file that was there before is somebody else's", () =>
  inRoot((root, actions) => {
    Deno.mkdirSync(`${root}/etc/systemd/system`, { recursive: true });
    Deno.writeTextFileSync(root + UNIT, "[Unit]\n");
    const program = programIn(root);
    for (let time = 0; time < 2; time++) {
      assert.equal(actions(install({ program, root, isDryRun: false }))[UNIT], "keep");
    }
    uninstall({ root, isDryRun: false });
    assert.equal(Deno.readTextFileSync(root + UNIT), "[Unit]\n");
  }));

Deno.test("uninstall takes what nobody has changed, and waits until the service is disabled", () =>
  inRoot((root, actions) => {
    install({ program: programIn(root), root, isDryRun: false });
    Deno.writeTextFileSync(root + CONFIG, "[server]\n");
    const enabled = `${root}/etc/systemd/system/multi-user.target.wants/hyperswap.service`;
    Deno.mkdirSync(`${root}/etc/systemd/system/multi-user.target.wants`);
    Deno.symlinkSync(UNIT, enabled);
    assert.throws(() => uninstall({ root, isDryRun: false }), { code: "busy", hint: /systemctl disable --now/ });
    Deno.removeSync(enabled);
    assert.equal(actions(uninstall({ root, isDryRun: true }))[UNIT], "remove");
    const answer = actions(uninstall({ root, isDryRun: false }));
    assert.deepEqual([answer[UNIT], answer[CONFIG], answer[BINARY]], ["remove", "keep", "remove"]);
    assert.throws(() => Deno.statSync(root + UNIT), Deno.errors.NotFound);
    assert.equal(Deno.readTextFileSync(root + CONFIG), "[server]\n");
    assert.deepEqual(uninstall({ root, isDryRun: false }).steps, []);
  }));

Deno.test("from source there is no program to put in place, and it says how to make one", () =>
  inRoot((root, actions) => {
    const program = { path: Deno.execPath(), args: ["run"], isBinary: false };
    const answer = install({ program, root, isDryRun: false });
    assert.equal(actions(answer)[BINARY], "absent");
    assert.throws(() => Deno.statSync(root + BINARY), Deno.errors.NotFound);
  }));
