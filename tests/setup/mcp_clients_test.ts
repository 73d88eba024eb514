import assert from "node:assert/strict";
import { installMcp, type McpClientsOptions, uninstallMcp } from "../../lib/setup/mcp_clients.ts";
import { tempFolder } from "../record/temp_folder.ts";

const PROGRAM = { path: "/usr/local/bin/hyperswap", args: [], isBinary: true };
const FILES = {
  "claude-desktop": ".config/Claude/claude_desktop_config.json",
  cursor: ".cursor/mcp.json",
  antigravity: ".gemini/antigravity-cli/mcp_config.json",
  vscode: ".config/Code/User/mcp.json",
} as const;

function withTempFolder(work: (path: string) => void): void {
  using folder = tempFolder();
  work(folder.path);
}

function put(path: string, text: string): void {
  Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
  Deno.writeTextFileSync(path, text);
}

const options = (home: string, more: Partial<McpClientsOptions> = {}): McpClientsOptions => ({
  home,
  program: PROGRAM,
  client: null,
  isPrint: false,
  ...more,
});

for (const [client, file] of Object.entries(FILES)) {
  Deno.test(`${client}: added, again no change, and taken out without a trace`, () =>
    withTempFolder((home) => {
      const path = `${home}/${file}`;
      const [added] = installMcp(options(home, { client }));
      assert.deepEqual([added?.action, added?.file], ["added", path]);
      const { mcpServers, servers } = JSON.parse(Deno.readTextFileSync(path));
      const entry = { command: PROGRAM.path, args: ["mcp"] };
      assert.deepEqual(
        [mcpServers, servers],
        client === "vscode"
          ? [undefined, { hyperswap: { type: "stdio", ...entry } }]
          : [{ hyperswap: entry }, undefined],
      );
      assert.equal(installMcp(options(home))[0]?.action, "unchanged");
      assert.equal(uninstallMcp(options(home))[0]?.action, "removed");
      assert.throws(() => Deno.statSync(path), Deno.errors.NotFound);
    }));
}

Deno.test("other entries stay as they are, byte for byte, and the file as it was lies beside it", () =>
  withTempFolder((home) => {
    const path = `${home}/${FILES.cursor}`;
    const text = '{"mcpServers": {"other":{"command":"x","n":1.50}} , "more":[1,  2]}';
    put(path, text);
    Deno.chmodSync(path, 0o640);
    installMcp(options(home));
    assert.ok(Deno.readTextFileSync(path).startsWith('{"mcpServers": {"other":{"command":"x","n":1.50}'));
    assert.equal((Deno.statSync(path).mode ?? 0) & 0o777, 0o640);
    assert.equal(Deno.readTextFileSync(`${path}.before-hyperswap`), text);
    const moved = { ...PROGRAM, path: "/opt/hyperswap" };
    assert.equal(installMcp(options(home, { program: moved }))[0]?.action, "updated");
    uninstallMcp(options(home));
    assert.equal(Deno.readTextFileSync(path), text);
  }));

Deno.test("a file that isn't plain JSON is refused and left alone", () =>
  withTempFolder((home) => {
    const path = `${home}/${FILES.vscode}`;
    const text = '{\n  // mine\n  "servers": {}\n}\n';
    put(path, text);
    assert.throws(() => installMcp(options(home)), { code: "invalid_input", message: /it is not plain JSON/ });
    assert.equal(Deno.readTextFileSync(path), text);
    put(path, '{"servers": []}');
    assert.throws(() => installMcp(options(home)), { code: "invalid_input" });
    // The refusal says that --print shows what to add by hand, so that can't depend on the file.
    const [shown] = installMcp(options(home, { isPrint: true }));
    assert.deepEqual([shown?.action, shown?.entry?.["command"]], ["would add", PROGRAM.path]);
  }));

Deno.test("a file in another encoding is refused: its letters would be lost", () =>
  withTempFolder((home) => {
    const path = `${home}/${FILES.vscode}`;
    put(path, "");
    const latin1 = new Uint8Array([...new TextEncoder().encode('{"a": "'), 0xe4, ...new TextEncoder().encode('"}')]);
    Deno.writeFileSync(path, latin1);
    assert.throws(() => installMcp(options(home)), { code: "invalid_input", message: /UTF-8/ });
    assert.deepEqual(Deno.readFileSync(path), latin1);
  }));

Deno.test("one client's broken file stops the others before anything is written", () =>
  withTempFolder((home) => {
    put(`${home}/${FILES["claude-desktop"]}`, "{}");
    put(`${home}/${FILES.cursor}`, "{");
    put(`${home}/${FILES.vscode}`, "{}");
    assert.throws(() => installMcp(options(home)), { code: "invalid_input", hint: /--client/ });
    assert.equal(Deno.readTextFileSync(`${home}/${FILES["claude-desktop"]}`), "{}");
    assert.equal(Deno.readTextFileSync(`${home}/${FILES.vscode}`), "{}");
  }));

Deno.test("a link to the file stays a link", () =>
  withTempFolder((home) => {
    put(`${home}/dotfiles/mcp.json`, "{}");
    Deno.mkdirSync(`${home}/.cursor`);
    Deno.symlinkSync(`${home}/dotfiles/mcp.json`, `${home}/${FILES.cursor}`);
    installMcp(options(home));
    assert.ok(Deno.lstatSync(`${home}/${FILES.cursor}`).isSymlink);
    assert.match(Deno.readTextFileSync(`${home}/dotfiles/mcp.json`), /hyperswap/);
  }));

Deno.test("printing writes nothing; unknown clients, and none at all, are refused with those there are", () =>
  withTempFolder((home) => {
    const [change] = installMcp(options(home, { client: "cursor", isPrint: true }));
    assert.deepEqual([change?.action, change?.entry], ["would add", { command: PROGRAM.path, args: ["mcp"] }]);
    assert.deepEqual([...Deno.readDirSync(home)], []);
    assert.throws(() => installMcp(options(home)), { code: "not_found", hint: /claude-desktop, cursor/ });
    assert.throws(() => installMcp(options(home, { client: "emacs" })), { code: "not_found" });
  }));
