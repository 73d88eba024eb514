import { useState } from "preact/hooks";
import type { Action } from "../live/action.ts";
import { call } from "../live/call.ts";
import type { LeverRow } from "../live/overclock.ts";
import { leverName, words } from "../format.ts";
import { ConfirmDialog } from "../parts/confirm_dialog.tsx";
import { Unknown } from "../parts/value.tsx";
import { LeverForm } from "./lever_form.tsx";

/** Per lever: what the card allows, what was wanted, what it says, and what it made of it. */
export function LeverTable({ levers, action }: { readonly levers: readonly LeverRow[]; readonly action: Action }) {
  const [isAsking, ask] = useState(false);
  const restore = () => {
    ask(false);
    void action.run("Restoring the card", async () => {
      const { message } = await call("restore", {});
      return { tone: "ok", title: message, detail: "It stays so until a profile is applied" };
    });
  };
  return (
    <div class="tuning-levers">
      <table>
        <thead>
          <tr>
            <th scope="col">Lever</th>
            <th scope="col" class="num">Range</th>
            <th scope="col" class="num">Wanted</th>
            <th scope="col" class="num">Read back</th>
            <th scope="col">Verdict</th>
          </tr>
        </thead>
        <tbody>{levers.map((lever) => <Row key={lever.lever} lever={lever} />)}</tbody>
      </table>
      <LeverForm levers={levers} action={action} />
      <div class="buttons">
        <button type="button" class="button button-small" onClick={() => ask(true)}>Restore stock</button>
      </div>
      {isAsking && (
        <ConfirmDialog
          title="Put every lever to stock?"
          confirm="Restore"
          onConfirm={restore}
          onCancel={() => ask(false)}
        >
          <p>Default power, no locks or offsets, automatic fans. The card stays so until a profile is applied.</p>
        </ConfirmDialog>
      )}
    </div>
  );
}

function Row({ lever }: { readonly lever: LeverRow }) {
  const { unit, min, max, wanted, wanted_by: by, why, read_back: readBack, verdict, evidence, remedy } = lever;
  const isRefused = verdict !== null && !["honoured", "unverified", "not_supported"].includes(verdict);
  return (
    <tr>
      <th scope="row">{leverName(lever.lever)}</th>
      <td class="num faint">
        {min === null || max === null ? <Unknown why={evidence} /> : `${min} to ${max}\u2009${unit}`}
      </td>
      <td class="num" title={why === null ? undefined : `${by ?? "nobody"}: ${why}`}>
        {wanted === null ? <span class="faint">as it is</span> : shown(wanted, unit)}
      </td>
      <td class="num">{readBack === null ? <Unknown why={evidence} /> : shown(readBack, unit)}</td>
      <td class={isRefused ? "tuning-refused" : "muted"} title={remedy ?? evidence ?? undefined}>
        {verdict === null ? <span class="faint">not set yet</span> : words(verdict)}
      </td>
    </tr>
  );
}

function shown(value: number | "stock", unit: string): string {
  return value === "stock" ? "stock" : `${value}\u2009${unit}`;
}
