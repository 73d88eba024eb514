/**
 * What may stand only in certain files of main.ts, ffi/ and lib/. Judged on the code without comments and strings;
 * static/ (a browser) and tests/ are exempt.
 */
import { covers } from "./covers.ts";
import { lineAt, mask, type Masked, type StringLiteral } from "./mask.ts";

interface Rule {
  /** Global: every match is one use. The group `name`, where there is one, is what the failure shows. */
  readonly pattern: RegExp;
  readonly allowedIn: readonly string[];
  readonly reason: string;
}

const TIME = ["lib/system/", "lib/lab/"];
const TIME_REASON = "clocks, timers and randomness stand only in lib/system and lib/lab: take the Clock port";
const NO_PROCESS = "the service starts no process, ever";
const IN_SIGHT = "a name that is put together at run time can't be checked";
const OBJECT = String.raw`(?<![\w$.#])`;

/** A global of that name, however it is reached, but not a property or a field of some other object. */
function global(names: string): RegExp {
  return new RegExp(
    String.raw`(?:\b(?:globalThis|self|window)\s*\??\.\s*|${OBJECT})(?<name>${names})\b(?!\s*\??:)`,
    "g",
  );
}

function member(object: string, names: string): RegExp {
  return new RegExp(String.raw`(?<![\w$#])(?<name>${object}\s*\??\.\s*(?:${names}))\b`, "g");
}

const RULES: readonly Rule[] = [
  { pattern: member("Deno", "dlopen"), allowedIn: ["ffi/"], reason: "libraries are opened only in ffi" },
  { pattern: member("Deno", "UnsafeFnPointer"), allowedIn: ["ffi/"], reason: "C is called only from ffi" },
  {
    pattern: member("Deno", "env"),
    allowedIn: ["lib/config/environment.ts"],
    reason: "the environment is read only by lib/config/environment.ts; take the configuration instead",
  },
  {
    pattern: member("process", "env"),
    allowedIn: ["lib/config/environment.ts"],
    reason: "the environment is read only by lib/config/environment.ts; take the configuration instead",
  },
  {
    pattern: global("console"),
    allowedIn: ["lib/system/log.ts", "lib/show/cli*"],
    reason: "console stands only in lib/system/log.ts and lib/show/cli: take the Log port",
  },
  { pattern: member("Date", "now"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: /\b(?<name>new\s+Date)\b(?!\s*\(\s*[^\s)])/g, allowedIn: TIME, reason: TIME_REASON },
  { pattern: /(?<![\w$.#]|new\s)(?<name>Date)\s*\(/g, allowedIn: TIME, reason: TIME_REASON },
  { pattern: member("Temporal", "Now"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: global("performance"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: global("setTimeout|setInterval|setImmediate"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: member("AbortSignal", "timeout"), allowedIn: TIME, reason: TIME_REASON },
  {
    pattern: member("AbortSignal", "any"),
    allowedIn: [],
    reason: "its signal may be collected while only a promise waits for it (Deno 2.4.2): take joinSignals",
  },
  { pattern: member("process", "hrtime|uptime"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: member("Math", "random"), allowedIn: TIME, reason: TIME_REASON },
  { pattern: member("crypto", String.raw`getRandomValues|random[A-Z]\w*`), allowedIn: TIME, reason: TIME_REASON },
  {
    pattern: global("randomBytes|randomUUID|randomInt|randomFill|randomFillSync|getRandomValues"),
    allowedIn: TIME,
    reason: TIME_REASON,
  },
  { pattern: member("Deno", String.raw`Command|kill|run|spawn\w*`), allowedIn: [], reason: NO_PROCESS },
  { pattern: member("process", String.raw`kill|execve|binding|dlopen`), allowedIn: [], reason: NO_PROCESS },
  { pattern: /\b(?<name>getBuiltinModule|createRequire)\b/g, allowedIn: [], reason: IN_SIGHT },
  { pattern: global("require|eval|Function(?=\\s*\\()"), allowedIn: [], reason: IN_SIGHT },
  { pattern: /(?<![\w$.#])(?<name>import)\s*\((?!\s*["'`])/g, allowedIn: [], reason: IN_SIGHT },
  { pattern: /(?<![\w$#])(?<name>Deno)\b(?!\s*\??\.\s*[A-Za-z])/g, allowedIn: [], reason: IN_SIGHT },
  { pattern: /(?<![\w$.#])(?<name>globalThis)\b(?!\s*\??\.\s*[A-Za-z])/g, allowedIn: [], reason: IN_SIGHT },
  { pattern: /(?<name>\\)/g, allowedIn: [], reason: IN_SIGHT },
];

/** C functions that start a process, or find one by name. */
const C_PROCESS =
  /^(?:(?:__NR|NR|SYS)_)?(?:f?exec(?:v|l|_)\w*|v?fork(?:pty)?|_Fork|(?:__)?clone\d?|posix_spawn\w*|system|popen|dlv?sym|dlm?open)$/i;
const C_REASON = "no C function that starts a process, or looks one up by name, is bound";

/** What they are to the kernel on x86-64: clone, fork, vfork, execve, execveat, clone3. */
const PROCESS_SYSCALL = /\b(?<name>syscall\s*\(\s*(?:56|57|58|59|322|435)n?)\b/g;

/** Modules by name in a string, wherever it stands: a dynamic import, a resolve, a table. */
const PROCESS_MODULE = /^(?:node:)?child_process$/;

interface Use {
  readonly at: number;
  readonly name: string;
  readonly reason: string;
}

/** "forbidden use path:line name: reason" for each thing that stands where it mustn't. */
export function forbiddenUses(path: string, source: string, masked: Masked = mask(source)): string[] {
  const rules = RULES.filter((rule) => !rule.allowedIn.some((entry) => covers(entry, path)));
  const uses = rules.flatMap(({ pattern, reason }) => matches(masked.code, pattern, reason));
  uses.push(...processModules(masked));
  if (path.startsWith("ffi/")) uses.push(...processSymbols(masked));
  return uses.sort((a, b) => a.at - b.at)
    .map(({ at, name, reason }) => `forbidden use ${path}:${lineAt(source, at)} ${name}: ${reason}`);
}

function matches(code: string, pattern: RegExp, reason: string): Use[] {
  return [...code.matchAll(pattern)].map((found) => ({
    at: found.index,
    name: (found.groups?.["name"] ?? found[0]).replaceAll(/\s+/g, " "),
    reason,
  }));
}

function processModules({ code, strings }: Masked): Use[] {
  return strings.flatMap(({ start, text }): Use[] => {
    if (PROCESS_MODULE.test(text)) return [{ at: start, name: text, reason: NO_PROCESS }];
    const isTakenApart = /^(?:node:)?process$/.test(text) && /\}\s*from\s*["']$/.test(code.slice(0, start));
    return isTakenApart ? [{ at: start, name: `{ … } from "${text}"`, reason: IN_SIGHT }] : [];
  });
}

/** A symbol table names its functions by key, or by `name: "…"` beside another key. */
function processSymbols({ code, strings }: Masked): Use[] {
  const keys = matches(code, /(?<![\w$.#])(?<name>[A-Za-z_]\w*)(?=\s*\??\s*[:=(])/g, C_REASON)
    .filter(({ at, name }) => C_PROCESS.test(name) && !/\bfunction\s*$/.test(code.slice(0, at)));
  // Elsewhere a string is only a word, such as the symbol an error names.
  const isName = ({ start, text }: StringLiteral) =>
    /\bname\s*:\s*["'`]$/.test(code.slice(0, start)) || /^["'`]\s*\]?\s*:/.test(code.slice(start + text.length));
  const names = strings.filter((string) => C_PROCESS.test(string.text) && isName(string))
    .map(({ start, text }) => ({ at: start, name: text, reason: C_REASON }));
  return [...keys, ...names, ...matches(code, PROCESS_SYSCALL, NO_PROCESS)];
}
