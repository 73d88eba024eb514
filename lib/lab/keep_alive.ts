/** `keep_alive` as the server understands it. */
export type KeepAlive =
  /** Not given: the default on a load, no change on a loaded model. */
  | { readonly kind: "absent" }
  /** Infinity = for ever. */
  | { readonly kind: "given"; readonly ms: number }
  | { readonly kind: "invalid"; readonly error: string };

const UNIT_MS: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  "µs": 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};
const PART = /^(\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h)/;

/** Numbers are seconds, strings Go durations; anything negative is for ever. */
export function parseKeepAlive(value: unknown): KeepAlive {
  if (value === undefined || value === null) return { kind: "absent" };
  if (typeof value === "number") return given(value * 1_000);
  if (typeof value === "string") return parseDuration(value);
  const type = typeof value === "boolean"
    ? "bool"
    : Array.isArray(value)
    ? "[]interface {}"
    : "map[string]interface {}";
  return { kind: "invalid", error: `Unsupported type: '${type}'` };
}

function parseDuration(text: string): KeepAlive {
  const isNegative = text.startsWith("-");
  let rest = text.replace(/^[-+]/, "");
  if (rest === "0") return given(0);
  const invalid: KeepAlive = { kind: "invalid", error: `time: invalid duration "${text}"` };
  if (rest === "") return invalid;
  let ms = 0;
  while (rest !== "") {
    const part = PART.exec(rest);
    if (part === null) {
      const isBareNumber = /^(\d+\.?\d*|\.\d+)$/.test(rest);
      return isBareNumber ? { kind: "invalid", error: `time: missing unit in duration "${text}"` } : invalid;
    }
    const [whole, number = "", unit = ""] = part;
    ms += Number(number) * (UNIT_MS[unit] ?? 0);
    rest = rest.slice(whole.length);
  }
  return given(isNegative ? -ms : ms);
}

function given(ms: number): KeepAlive {
  return { kind: "given", ms: ms < 0 ? Infinity : ms };
}
