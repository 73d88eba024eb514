/** What a file must look like: how long it may be, what it may be called, and that it says something of its own. */
import { mask } from "./mask.ts";

/** Hard limit; the aim is 300, and the median at most 150. */
const MAX_LINES = 400;

/** Names that say nothing about what is inside. */
const EMPTY_NAME = /(?:^|_)(?:index|utils?|helpers?|managers?|handlers?|impl|misc|common)$/;

/** Everything a file consists of when it only passes on what others export. */
const PASSED_ON = /\b(?:import|export)\b[^;{}]*(?:\{[^}]*\}[^;{}]*)?from\s*["']\s*["'][^;]*;?/g;

/** "path: what is wrong" for one source file. */
export function misshapes(path: string, source: string): string[] {
  const found: string[] = [];
  const lines = source.split("\n").length - (source.endsWith("\n") ? 1 : 0);
  if (lines > MAX_LINES) found.push(`${path}: ${lines} lines, more than ${MAX_LINES}: it holds more than one thing`);
  const name = (path.split("/").pop() ?? path).replace(/(?:\.d)?\.tsx?$/, "");
  if (!/^[a-z][a-z0-9_]*$/.test(name)) found.push(`${path}: file names are snake_case`);
  if (EMPTY_NAME.test(name)) found.push(`${path}: "${name}" says nothing; a file is named after its main export`);
  const { code } = mask(source);
  if (/\bexport\s+default\b/.test(code)) found.push(`${path}: export default gives one thing many names`);
  if (/\bfrom\b/.test(code) && /\bexport\b/.test(code) && code.replaceAll(PASSED_ON, "").trim() === "") {
    found.push(`${path}: it only passes on what others export; import from where a thing is made`);
  }
  return found;
}
