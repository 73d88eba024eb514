/** Completions are asked for in the shells themselves, where they are installed. */
import assert from "node:assert/strict";
import { operations } from "../../lib/operations/registry.ts";
import { completions, SHELLS } from "../../lib/show/cli_completions.ts";
import { extraCommands } from "../../lib/show/cli_extras.ts";
import { onPath } from "../tasks/tools.ts";

const EXTRAS = extraCommands({ "state-dir": "where history is kept" });

/** Asks a shell what could stand at the end of each line (one line a question), and answers with the words. */
const ASK: Readonly<Record<string, (script: string) => string>> = {
  bash: (script) =>
    `${script}
while IFS= read -r line; do
  read -ra COMP_WORDS <<< "$line"; [[ $line == *" " ]] && COMP_WORDS+=("")
  COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)); COMPREPLY=(); _hyperswap; echo "\${COMPREPLY[*]}"
done`,
  zsh: (script) =>
    `compdef() { :; }
_files() { :; }
${script}
compadd() { shift; local -a found; found=(\${(M)@:#\${words[CURRENT]}*}); echo "$found"; }
while IFS= read -r line; do
  words=(\${=line}); [[ $line == *" " ]] && words+=("")
  CURRENT=\${#words}; _hyperswap
done`,
  fish: (script) =>
    `${script}
while read --local --line line
  complete -C "$line" | string split -f 1 \\t | string join " "
end`,
};

async function ask(shell: string, path: string, lines: readonly string[]): Promise<string[][]> {
  const child = new Deno.Command(path, {
    args: [
      ...(shell === "bash" ? ["--norc"] : shell === "zsh" ? ["-f"] : ["--no-config"]),
      "-c",
      ASK[shell]?.(completions(shell, EXTRAS)) ?? "",
    ],
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(lines.map((line) => `${line}\n`).join("")));
  await writer.close();
  const { stdout, stderr } = await child.output();
  assert.equal(new TextDecoder().decode(stderr), "", shell);
  return new TextDecoder().decode(stdout).trimEnd().split("\n").map((line) => line.split(" ").filter((word) => word));
}

for (const shell of SHELLS) {
  const found = await onPath(shell, `asks ${shell} itself what it completes`);
  if ("reason" in found) console.log(`Completions for ${shell} are not tried in it: ${found.reason}`);
  Deno.test({
    name: `${shell} completes commands, flags and values`,
    ignore: "reason" in found,
    async fn() {
      const cases: readonly (readonly [string, readonly string[], readonly string[]])[] = [
        ["hyperswap ", ["status", "yield", "top", "config"], ["check"]],
        ["hyperswap conf", ["config"], ["status"]],
        ["hyperswap config ", ["check", "show", "schema"], ["status"]],
        ["hyperswap --port 9190 arbitration ", ["set"], ["status"]],
        ["hyperswap arbitration set ", ["auto", "observe", "paused"], []],
        ["hyperswap history --k", ["--kind"], ["--limit"]],
        ["hyperswap history --kind s", ["swap"], ["yield"]],
        ["hyperswap completions ", ["bash", "zsh", "fish"], []],
      ];
      const answers = await ask(shell, "path" in found ? found.path : "", cases.map(([line]) => line));
      assert.equal(answers.length, cases.length);
      for (const [at, [line, wanted, unwanted]] of cases.entries()) {
        for (const word of wanted) assert.ok(answers[at]?.includes(word), `${line}: ${word} is not in ${answers[at]}`);
        for (const word of unwanted) assert.ok(!answers[at]?.includes(word), `${line}: ${word} is in ${answers[at]}`);
      }
    },
  });
}

Deno.test("every command is in every shell's completions, and another shell is refused", () => {
  for (const shell of SHELLS) {
    const script = completions(shell, EXTRAS);
    for (const { cli } of operations) {
      if (cli !== false) { for (const word of cli.words) assert.ok(script.includes(word), `${word} in ${shell}`); }
    }
  }
  assert.throws(() => completions("tcsh", EXTRAS), { code: "not_found", hint: /bash, zsh, fish/ });
});
