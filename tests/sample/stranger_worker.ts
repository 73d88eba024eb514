/** Measures as somebody else: one thread that gives up root for itself, while the rest of the test keeps it. */
import { openLibc } from "../../ffi/libc.ts";
import { openPageCalls } from "../../ffi/page_calls.ts";
import { KeptFiles } from "../../lib/sample/kept_files.ts";
import { measureResidency, type ResidencyQuestion } from "../../lib/sample/residency.ts";
import { systemClock } from "../../lib/system/clock.ts";

/** Bare calls: glibc's wrappers would change every thread of the process. */
const SYS = {
  x86_64: { setgroups: 116n, setresgid: 119n, setresuid: 117n },
  aarch64: { setgroups: 159n, setresgid: 149n, setresuid: 147n },
};
const NOBODY = 65_534n;

export interface StrangerQuestion {
  readonly path: string;
  readonly question: ResidencyQuestion;
  /** How often. */
  readonly times: number;
}

const libc = openLibc();
const pages = openPageCalls();
const tools = { libc, pages, clock: systemClock(), kept: new KeptFiles(libc, pages) };
const numbers = SYS[Deno.build.arch];
const raw = Deno.dlopen("libc.so.6", {
  syscall: { parameters: ["i64", "i64", "i64", "i64"], result: "i64" },
});
const answers = [
  raw.symbols.syscall(numbers.setgroups, 0n, 0n, 0n),
  raw.symbols.syscall(numbers.setresgid, NOBODY, NOBODY, NOBODY),
  raw.symbols.syscall(numbers.setresuid, NOBODY, NOBODY, NOBODY),
];

self.addEventListener("message", ({ data }: MessageEvent<StrangerQuestion>) => {
  const { path, question, times } = data;
  self.postMessage(Array.from({ length: times }, () => measureResidency(tools, path, question)));
});
self.postMessage(answers.every((answer) => answer === 0n) && pages.mayWrite("/etc") === false);
