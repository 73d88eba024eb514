import { useEffect, useRef, useState } from "preact/hooks";
import { refused, type Said } from "../live/action.ts";
import { useDashboard, type WhyRequest } from "../live/dashboard.ts";
import type { WhyEntry } from "../live/wire.ts";
import { clockTime } from "../format.ts";

/** Decisions this close to an event are its story: what led to it, and what it led to. */
const BEFORE_MS = 15_000;
const AFTER_MS = 3_000;

/** The log of decisions, over the page: why did it do that? */
export function WhyPanel() {
  const { why, closeWhy } = useDashboard();
  const request = why.value;
  return request === null ? null : <WhyDialog request={request} onClose={closeWhy} />;
}

function WhyDialog({ request, onClose }: { readonly request: WhyRequest; readonly onClose: () => void }) {
  const { loadWhy } = useDashboard();
  const dialog = useRef<HTMLDialogElement>(null);
  const [entries, setEntries] = useState<readonly WhyEntry[] | null>(null);
  const [refusal, setRefusal] = useState<Said | null>(null);
  useEffect(() => {
    const closing = new AbortController();
    dialog.current?.showModal();
    loadWhy(closing.signal).then(setEntries).catch((error: unknown) => {
      if (!closing.signal.aborted) setRefusal(refused(error));
    });
    return () => closing.abort();
  }, []);
  const isNear = (entry: WhyEntry) => {
    const distance = Date.parse(entry.at) - (request.atMs ?? 0);
    return request.atMs !== null && distance >= -BEFORE_MS && distance <= AFTER_MS;
  };
  const near = entries?.filter(isNear) ?? [];
  const shown = near.length > 0 ? near : entries;
  return (
    <dialog ref={dialog} class="drawer" aria-labelledby="why-title" onClose={onClose}>
      <div class="drawer-head">
        <div>
          <h2 id="why-title">{request.title}</h2>
          <p class="muted">{near.length > 0 ? "What led to it, newest first" : "Decisions, newest first"}</p>
        </div>
        <button type="button" class="icon-button" aria-label="Close" onClick={() => dialog.current?.close()}>×</button>
      </div>
      {request.atMs !== null && entries !== null && near.length === 0 && (
        <p class="callout">The decisions of that moment are no longer kept; these are the newest.</p>
      )}
      {refusal !== null && (
        <div class="callout callout-bad" role="alert">
          <p class="callout-title">{refusal.title}</p>
          {refusal.detail !== null && <p class="muted">{refusal.detail}</p>}
        </div>
      )}
      {entries === null && refusal === null && <p class="empty">Asking …</p>}
      {shown?.length === 0 && <p class="empty">Nothing has been decided yet.</p>}
      <ol class="decisions">{shown?.map((entry) => <Decision key={entry.id} entry={entry} />)}</ol>
    </dialog>
  );
}

function Decision({ entry }: { readonly entry: WhyEntry }) {
  const when = new Date(entry.at);
  return (
    <li class="decision">
      <p class="decision-head">
        <time class="faint" dateTime={entry.at}>
          {clockTime(when)}.{String(when.getMilliseconds()).padStart(3, "0")}
        </time>
        <b>{entry.event}</b>
      </p>
      <p>{entry.reason}</p>
      <p class="decision-state faint">
        {entry.before === entry.after ? entry.after : <>{entry.before} → {entry.after}</>}
      </p>
      {entry.effects.length > 0 && (
        <ul class="decision-effects">{entry.effects.map((effect) => <li key={effect}>{effect}</li>)}</ul>
      )}
    </li>
  );
}
