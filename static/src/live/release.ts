/** What a yield or purge achieved, in one sentence that never claims more than was read back. */
import type { Said, Tone } from "./action.ts";
import type { Purged, Yielded } from "./wire.ts";
import { duration } from "../format.ts";

const TONES: Readonly<Record<Yielded["outcome"], Tone>> = {
  released: "ok",
  nothing_loaded: "info",
  unconfirmed: "warn",
  busy: "warn",
  remote: "warn",
  timeout: "bad",
  fault: "bad",
  unreachable: "bad",
};

/** The service's message explains what isn't `released`; a release is told by its figures. */
export function sayReleased(answer: Yielded | Purged): Said {
  const tone = TONES[answer.outcome];
  if (answer.outcome !== "released") return { tone, title: answer.message, detail: requestLine(answer) };
  const freed = answer.freed_gb === null ? "Released" : `Released ${answer.freed_gb.toFixed(1)} GiB`;
  const within = answer.confirm_ms === null ? "" : ` in ${duration(answer.confirm_ms)}`;
  const [witness, how] = (answer.confirmed_by ?? "").split(": ");
  const confirmed = witness ? `, confirmed by ${witness}` : "";
  const alone = answer.request_ms === null ? null : `the reply alone took ${duration(answer.request_ms)}`;
  const detail = [how, alone].filter((part) => part != null).join("; ");
  return { tone, title: freed + within + confirmed, detail: detail === "" ? null : sentence(detail) };
}

function sentence(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

function requestLine(answer: Yielded | Purged): string | null {
  return answer.request_ms === null ? null : `Asked in ${duration(answer.request_ms)}; nothing confirmed`;
}
