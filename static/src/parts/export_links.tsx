import { DOWNLOADS } from "../../../lib/operations/routes.ts";

/** The record as a file: the service streams it, the browser saves it. */
export function ExportLinks({ what, from, to }: {
  readonly what: "events" | "telemetry" | "autotune";
  /** ISO 8601, or how long ago; left out: from the beginning. */
  readonly from?: string;
  readonly to?: string;
}) {
  return (
    <>
      {(["csv", "json"] as const).map((format) => {
        const bounds = Object.entries({ from, to }).flatMap(([name, at]) => at === undefined ? [] : [[name, at]]);
        const query = new URLSearchParams([["what", what], ["format", format], ...bounds]);
        return (
          <a
            key={format}
            class="button button-small"
            href={`${DOWNLOADS.export.path}?${query}`}
            download=""
            aria-label={`Export ${what} as ${format.toUpperCase()}`}
          >
            {format.toUpperCase()}
          </a>
        );
      })}
    </>
  );
}
