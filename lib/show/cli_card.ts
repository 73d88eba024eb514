/** The card's settings for people: profiles with their evidence, levers with their verdicts, fans, governor. */
import type { Operations } from "../operations/registry.ts";
import { clock } from "./cli_events.ts";
import { labelled, quantity, table } from "./cli_output.ts";
import type { Style } from "./cli_output.ts";

type Answer<N extends keyof Operations> = Operations[N]["output"];
type Overclock = Answer<"overclock">;
type LeverRow = Overclock["levers"][number];
type Profile = Overclock["profiles"][number];

const VERDICT_STYLE: Readonly<
  Record<NonNullable<LeverRow["verdict"]>, keyof Pick<Style, "good" | "warn" | "bad" | "dim">>
> = {
  honoured: "good",
  unverified: "dim",
  not_supported: "dim",
  not_permitted: "bad",
  ignored: "warn",
  failed: "bad",
};

export function renderOverclock(view: Overclock, style: Style): string {
  const profile = view.active_profile === null ? "none" : style.bold(view.active_profile);
  const head = labelled([
    ["Profile", `${profile}: ${view.why}`],
    ...(view.available ? [] : [["Card", style.warn(view.reason ?? "nothing can be set now")] as const]),
    ...(view.confirm === null
      ? []
      : [["On trial", style.warn(`${view.confirm.what}, taken back at ${clock(view.confirm.until)}`)] as const]),
    ...(view.sweeping ? [["Sweep", "a sweep holds the card"] as const] : []),
    ["Faults", view.xid_source === null ? "Xid can't be heard here" : `Xid is heard through ${view.xid_source}`],
    ...(view.ollama_back === false ? [["Ollama", style.bad("runs on the CPU since the card came back")] as const] : []),
  ], style);
  return `${head}\n${renderProfiles(view.profiles, style)}\n${renderLevers(view.levers, style)}\n` +
    renderFan(view.fans, style) + renderDrift(view.drift, style);
}

function renderProfiles(profiles: readonly Profile[], style: Style): string {
  const rows = profiles.flatMap((profile) => {
    const name = profile.active ? style.bold(`${profile.name} *`) : profile.name;
    const settings = profile.settings.map(({ lever, value, measured }) => [lever, String(value), measured]);
    const lines = settings.length === 0 ? [["–", "", "sets nothing"]] : settings;
    return lines.map((line, at) => [at === 0 ? name : "", ...line]);
  });
  const quarantined = profiles.filter(({ quarantined_for }) => quarantined_for !== null);
  return table(["PROFILE", "LEVER", "VALUE", "EVIDENCE"], rows, { style, empty: "No profiles" }) +
    quarantined.map(({ name, quarantined_for }) =>
      style.warn(`${name} is quarantined: ${quarantined_for}; applied by hand it is trusted again\n`)
    ).join("");
}

function renderLevers(levers: readonly LeverRow[], style: Style): string {
  const rows = levers.map((lever) => [
    lever.lever,
    rangeOf(lever),
    shown(lever.wanted, lever.unit),
    shown(lever.read_back, lever.unit),
    lever.verdict === null ? "–" : style[VERDICT_STYLE[lever.verdict]](lever.verdict.replaceAll("_", " ")),
    [lever.wanted_by, lever.evidence ?? lever.why].filter((text) => text !== null).join(": ") || "never set",
  ]);
  const remedies = levers.flatMap(({ lever, remedy }) => remedy === null ? [] : [`${lever}: ${remedy}\n`]);
  return table(["LEVER", "ALLOWED", "WANTED", "CARD SAYS", "VERDICT", "WHY"], rows, {
    style,
    empty: "No levers: the card has not been opened",
  }) + remedies.map((text) => style.dim(`hint: ${text}`)).join("");
}

function rangeOf({ adjustable, min, max, unit, stock }: LeverRow): string {
  if (adjustable === null) return "not known yet";
  if (!adjustable) return "not adjustable";
  return `${min} to ${max} ${unit}${stock === null ? "" : `, stock ${stock}`}`;
}

function shown(value: LeverRow["wanted"], unit: string): string {
  return value === null ? "–" : value === "stock" ? "stock" : `${value} ${unit}`;
}

function renderDrift(drift: Overclock["drift"], style: Style): string {
  return drift.map(({ lever, wanted, found, conflict, suspects }) => {
    const who = suspects.length === 0 ? "" : ` (${suspects.join(", ")})`;
    const what = conflict ? "another tool keeps changing it, so it isn't set again" : "it was changed";
    return style.warn(`${lever} was set to ${wanted} and is ${found}: ${what}${who}\n`);
  }).join("");
}

/** What became of a change: its message, and each lever that was asked about. */
export function renderChange({ message, levers }: Answer<"set-lever">, style: Style): string {
  const isGood = levers.every(({ verdict }) => verdict === null || verdict === "honoured" || verdict === "unverified");
  const said = isGood ? style.good(message) : style.warn(message);
  return `${said}\n${levers.length === 0 ? "" : renderLevers(levers, style)}`;
}

export function renderFan(fan: Answer<"fan">, style: Style): string {
  const target = fan.target_pct === null ? "" : `, set to ${fan.target_pct} %`;
  const rows = fan.fans.map(({ pct, target_pct, rpm, mode }, at) => [
    String(at),
    mode ?? "–",
    quantity(pct, "%"),
    quantity(target_pct, "%"),
    quantity(rpm, "rpm"),
  ]);
  return labelled([
    ["Fans", fan.mode === null ? "unknown" : `${fan.mode}${target}`],
    ["Range", fan.adjustable === false ? fan.reason ?? "can't be set" : `${fan.min_pct} to ${fan.max_pct} %`],
  ], style) + (rows.length === 0 ? "" : table(["FAN", "MODE", "NOW", "TARGET", "SPEED"], rows, { style, empty: "" }));
}

export function renderGovernor(view: Answer<"governor">, style: Style): string {
  const { settings } = view;
  const level = view.blind ? style.bad("blind: the card is at stock") : `${view.level} of ${view.rungs.length - 1}`;
  const rungs = view.rungs.map((text, at) => {
    const line = `  ${at}  ${text}`;
    return `${at === view.level && view.enabled ? style.bold(`${line}  ← here`) : style.dim(line)}\n`;
  });
  const history = view.history.slice(0, HISTORY_SHOWN).map(({ at, from, level: to, reason }) =>
    `${style.dim(clock(at))}  ${from} → ${to}: ${reason}\n`
  );
  return labelled([
    ["Governor", view.enabled ? style.good("on") : style.warn("off")],
    ["Level", level],
    ["Why", view.reason],
    [
      "Hot from",
      `${
        quantity(view.hot_c, "°C")
      }, memory ${settings.memory_hot_c} °C; good from ${settings.recover_margin_c} °C below`,
    ],
    [
      "Samples",
      `${view.bad_in_a_row} bad of ${settings.bad_samples}, ${view.good_in_a_row} good of ${settings.good_samples}, ` +
      `at least ${settings.cooldown_s} s between two changes`,
    ],
  ], style) + rungs.join("") + (history.length === 0 ? "" : `\n${history.join("")}`);
}

const HISTORY_SHOWN = 10;
