/** What became of a change of the card, for the note below it. */
import type { Said } from "./action.ts";
import type { Answer } from "./call.ts";

export function sayChanged({ message, levers }: Answer<"set-lever">): Said {
  const open = levers.filter(({ verdict }) => verdict !== null && verdict !== "honoured" && verdict !== "unverified");
  if (open.length === 0) return { tone: "ok", title: message, detail: null };
  return {
    tone: "warn",
    title: `${message}, but not all of it took`,
    detail: open.map(({ lever, evidence, remedy }) => `${lever}: ${remedy ?? evidence ?? "no answer"}`).join("; "),
  };
}
