import { useEffect } from "preact/hooks";
import { useSignal } from "@preact/signals";
import { type Answer, call, Refusal } from "../live/call.ts";
import { fixed, UNKNOWN } from "../format.ts";

type Row = Answer<"footprints">["footprints"][number];

const RENEW_MS = 60_000;
const SHOWN = 8;

/** What was measured to be taken: hand-offs are decided by it, so its misses stand beside it. */
export function Footprints() {
  const rows = useSignal<readonly Row[] | null>(null);
  const error = useSignal<string | null>(null);
  useEffect(() => {
    const load = async () => {
      if (document.visibilityState !== "visible") return;
      try {
        rows.value = (await call("footprints", {})).footprints;
        error.value = null;
      } catch (cause) {
        if (!(cause instanceof Refusal)) throw cause;
        error.value = cause.message;
      }
    };
    void load();
    const timer = setInterval(() => void load(), RENEW_MS);
    return () => clearInterval(timer);
  }, []);
  if (error.value !== null) return <p class="empty">{error.value}</p>;
  if (rows.value === null) return null;
  if (rows.value.length === 0) return <p class="faint">What models take is learned as they are loaded.</p>;
  return (
    <table class="figures">
      <thead>
        <tr>
          <th scope="col">What it takes, GiB</th>
          {["n", "peak", "steady", "misses"].map((name) => <th key={name} scope="col" class="num">{name}</th>)}
        </tr>
      </thead>
      <tbody>
        {rows.value.slice(0, SHOWN).map((row) => <FootprintLine key={`${row.name} ${row.context_length}`} row={row} />)}
      </tbody>
      <caption>Reckoned with from three measurements on; a miss took more than was reckoned with</caption>
    </table>
  );
}

function FootprintLine({ row }: { readonly row: Row }) {
  return (
    <tr>
      <th scope="row" class={row.used ? "" : "muted"}>
        {row.name} {row.context_length !== null && <span class="faint">{row.context_length} context</span>}
      </th>
      <td class="num">{row.n}</td>
      <td class="num" title={`${fixed(row.least_gb, 1)} to ${fixed(row.peak_gb, 1)}`}>{fixed(row.peak_gb, 1)}</td>
      <td class="num">{row.steady_gb === null ? UNKNOWN : fixed(row.steady_gb, 1)}</td>
      <td class={row.misses > 0 ? "num late" : "num"}>{row.misses}</td>
    </tr>
  );
}
