/** Completions for bash, zsh and fish, made from the registry: they know what this version knows, without asking it. */
import { Failure } from "../model/failure.ts";
import { operations } from "../operations/registry.ts";
import { type ExtraCommand, isWatchable, SWITCHES } from "./cli_commands.ts";

export const SHELLS = ["bash", "zsh", "fish"] as const;

/** One command as completions see it. */
interface Entry {
  /** Its words with one space between; "" is `hyperswap` alone. */
  readonly path: string;
  readonly brief: string;
  readonly flags: readonly Flag[];
  /** What its first argument may be, where that is known. */
  readonly argument: readonly string[];
}

interface Flag {
  readonly name: string;
  readonly brief: string;
  readonly takesValue: boolean;
  readonly choices: readonly string[];
}

/** The script for a shell. Throws Failure not_found for one it doesn't know. */
export function completions(shell: string, extras: readonly ExtraCommand[]): string {
  const entries = [...operations.flatMap(entryOf), ...extras.map(entryOfExtra)];
  switch (SHELLS.find((known) => known === shell)) {
    case "bash":
      return bash(entries);
    case "zsh":
      return zsh(entries);
    case "fish":
      return fish(entries);
    case undefined:
      throw new Failure("not_found", `Cannot make completions for ${shell === "" ? "no shell" : `"${shell}"`}`, {
        hint: `It is one of ${SHELLS.join(", ")}: hyperswap completions bash`,
      });
  }
}

const ADDRESS_FLAGS = ["host", "port", "socket", "token"].map((name) => flag(name, `the service's ${name}`));

function flag(name: string, brief: string, choices: readonly string[] = []): Flag {
  return { name: name.replaceAll("_", "-"), brief, takesValue: true, choices };
}

function entryOf(operation: typeof operations[number]): Entry[] {
  if (operation.cli === false) return [];
  const { words, positional = [] } = operation.cli;
  const flags = operation.parameters.flatMap((parameter) => {
    const own = flag(parameter.name, parameter.description, parameter.choices ?? []);
    if (parameter.kind !== "boolean") return [own];
    return [{ ...own, takesValue: false }, { ...own, name: `no-${own.name}`, takesValue: false }];
  });
  const switches = ["json", ...(isWatchable(operation) ? ["watch"] : [])].map((name) => ({
    ...flag(name, name === "json" ? "one JSON document" : "go on showing it"),
    takesValue: false,
  }));
  const first = operation.parameters.find(({ name }) => name === positional[0]);
  return [{
    path: words.join(" "),
    brief: operation.summary,
    flags: [...flags, ...switches, ...ADDRESS_FLAGS],
    argument: first?.choices ?? [],
  }];
}

function entryOfExtra({ words, brief, flags }: ExtraCommand): Entry {
  return {
    path: words.join(" "),
    brief,
    flags: Object.entries(flags).map(([name, about]) => ({
      ...flag(name, about),
      takesValue: !SWITCHES.includes(name),
    })),
    argument: words[0] === "completions" ? SHELLS : [],
  };
}

/** The words that may follow each path, with what they are. */
function nextWords(entries: readonly Entry[]): ReadonlyMap<string, ReadonlyMap<string, string>> {
  const next = new Map<string, Map<string, string>>();
  for (const { path, brief } of entries) {
    const words = path.split(" ");
    words.forEach((word, at) => {
      const before = words.slice(0, at).join(" ");
      const known = next.get(before) ?? new Map<string, string>();
      // A command's own brief wins over that of what stands below it.
      if (at === words.length - 1 || !known.has(word)) known.set(word, at === words.length - 1 ? brief : `${word} …`);
      next.set(before, known);
    });
  }
  return next;
}

/** The three questions both bash and zsh ask: what may follow, which flags there are, what a flag may be. */
function tables(entries: readonly Entry[]): string {
  const arm = (key: string, words: Iterable<string>) => `    ${quote(key)}) echo ${quote([...words].join(" "))} ;;\n`;
  const words = [...nextWords(entries)].map(([path, next]) => arm(path, next.keys()));
  const args = entries.filter(({ argument }) => argument.length > 0).map(({ path, argument }) => arm(path, argument));
  const flags = entries.map(({ path, flags }) => arm(path, ["--help", ...flags.map(({ name }) => `--${name}`)]));
  const values = entries.flatMap(({ path, flags }) =>
    flags.filter(({ takesValue, choices }) => takesValue && choices.length > 0)
      .map(({ name, choices }) => arm(`${path} --${name}`, choices))
  );
  const plain = [...new Set(entries.flatMap(({ flags }) => flags.filter((one) => one.takesValue)))]
    .map(({ name }) => `--${name}`);
  const table = (name: string, arms: readonly string[]) => `${name}() {\n  case "$1" in\n${arms.join("")}  esac\n}\n`;
  return table("__hyperswap_words", words) + table("__hyperswap_arguments", args) +
    table("__hyperswap_flags", flags) + table("__hyperswap_values", values) +
    `__hyperswap_takes_value() {\n  case "$1" in\n    ${
      [...new Set(plain)].join("|")
    }) return 0 ;;\n  esac\n  return 1\n}\n` +
    PATH_OF_WORDS;
}

/** How far the words lead into the tree. Flags and their values stand anywhere. */
const PATH_OF_WORDS = `__hyperswap_path() {
  local path="" word skip=""
  for word in "$@"; do
    if [ -n "$skip" ]; then skip=""; continue; fi
    case "$word" in
      --*=*) continue ;;
      -*) __hyperswap_takes_value "$word" && skip=1; continue ;;
    esac
    case " $(__hyperswap_words "$path") " in
      *" $word "*) path="\${path:+$path }$word" ;;
    esac
  done
  echo "$path"
}
__hyperswap_candidates() {
  local path="$1" before="$2" current="$3"
  if __hyperswap_takes_value "$before"; then
    __hyperswap_values "$path $before"
  elif [ "\${current#-}" != "$current" ]; then
    __hyperswap_flags "\${path:-status}"
  else
    echo "$(__hyperswap_words "$path") $(__hyperswap_arguments "$path")"
  fi
}
`;

function bash(entries: readonly Entry[]): string {
  return `# HyperSwap's completions for bash: source <(hyperswap completions bash)
${tables(entries)}_hyperswap() {
  local current="\${COMP_WORDS[COMP_CWORD]}" before="\${COMP_WORDS[COMP_CWORD-1]}"
  local path
  path="$(__hyperswap_path "\${COMP_WORDS[@]:1:COMP_CWORD-1}")"
  COMPREPLY=($(compgen -W "$(__hyperswap_candidates "$path" "$before" "$current")" -- "$current"))
}
complete -o default -F _hyperswap hyperswap
`;
}

function zsh(entries: readonly Entry[]): string {
  return `#compdef hyperswap
# HyperSwap's completions for zsh: source <(hyperswap completions zsh), after compinit
${tables(entries)}_hyperswap() {
  local current="\${words[CURRENT]}" before="\${words[CURRENT-1]}"
  local path="$(__hyperswap_path "\${(@)words[2,CURRENT-1]}")"
  local -a candidates
  candidates=(\${=$(__hyperswap_candidates "$path" "$before" "$current")})
  if (( \${#candidates} )); then compadd -- $candidates; else _files; fi
}
compdef _hyperswap hyperswap
`;
}

function fish(entries: readonly Entry[]): string {
  const at = (path: string) => `-n ${quote(`test "$(__hyperswap_path)" = ${JSON.stringify(path)}`)}`;
  const known = [...nextWords(entries)].map(([path, next]) =>
    `    case ${quote(path)}\n      echo ${[...next.keys()].join(" ")}\n`
  );
  const words = [...nextWords(entries)].flatMap(([path, next]) =>
    [...next].map(([word, brief]) => `complete -c hyperswap -f ${at(path)} -a ${word} -d ${quote(brief)}\n`)
  );
  const args = entries.filter(({ argument }) => argument.length > 0).map(({ path, argument }) =>
    `complete -c hyperswap -f ${at(path)} -a ${quote(argument.join(" "))}\n`
  );
  const flags = entries.flatMap(({ path, flags }) =>
    flags.map(({ name, brief, takesValue, choices }) =>
      `complete -c hyperswap ${at(path)} -l ${name}${takesValue ? " -r" : ""}${
        choices.length > 0 ? ` -f -a ${quote(choices.join(" "))}` : ""
      } -d ${quote(brief.split(/[:;,(]/)[0] ?? "")}\n`
    )
  );
  return `# HyperSwap's completions for fish: hyperswap completions fish > ~/.config/fish/completions/hyperswap.fish
function __hyperswap_words
  switch "$argv[1]"
${known.join("")}  end
end
function __hyperswap_path
  set -l path
  for word in (commandline -opc)[2..-1]
    if contains -- $word (string split " " (__hyperswap_words "$path"))
      set path $path $word
    end
  end
  echo "$path"
end
${[...words, ...args, ...flags].join("")}`;
}

/** In single quotes, as all three shells take it. */
function quote(text: string): string {
  return `'${text.replaceAll("'", `'"'"'`)}'`;
}
