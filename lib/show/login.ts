/**
 * Logging in: the link's code stands behind the `#`, which browsers keep to themselves. The page posts it, and gets a
 * cookie that no script reads and no other site sends.
 */
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Logins, Scope } from "../model/services.ts";
import { toIso } from "../model/units.ts";
import { json } from "./answers.ts";
import type { Assets } from "./assets.ts";
import { readBody } from "./bind.ts";

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>HyperSwap: log in</title>
<link rel="icon" href="data:,">
</head>
<body>
<p id="note">Logging in …</p>
<script src="/login/start.js"></script>
</body>
</html>
`;

const START = `const note = document.getElementById("note");
const code = location.hash.slice(1);
history.replaceState(null, "", "/login");
const say = (text) => { note.textContent = text; };
if (code === "") say("This page needs a link: hyperswap dashboard prints one.");
else fetch("/api/login", {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ code }),
}).then(async (response) => {
  if (response.ok) return location.replace("/");
  const { error } = await response.json();
  say(error.message + (error.hint ? ". " + error.hint : ""));
}).catch(() => say("HyperSwap doesn't answer."));
`;

/** The page's files by path. */
export const loginAssets: Assets = new Map([["login.html", PAGE], ["login/start.js", START]]);

/** Answers a login. The code is the credential: whoever has it may log in, once. Throws Failure. */
export async function logIn(
  request: Request,
  { logins, clock }: { readonly logins: Logins; readonly clock: Pick<Clock, "wallMs"> },
): Promise<Response> {
  const { code, ...rest } = await readBody(request);
  if (typeof code !== "string" || code === "" || Object.keys(rest).length > 0) {
    throw new Failure("invalid_input", "Parameter code is missing", {
      hint: 'Send {"code": "…"}, the part of the link behind #',
      details: { parameter: "code" },
    });
  }
  const { secret, scopes, untilMs } = logins.redeem(code);
  const response = json({ scopes, expires_at: toIso(untilMs) }, 200);
  setCookie(response, { request, secret, maxAgeS: Math.round((untilMs - clock.wallMs()) / 1000) });
  return response;
}

/** Ends the login that the request carries, if it does. */
export function logOut(request: Request, logins: Logins): Response {
  const secret = secretIn(request);
  if (secret !== null) logins.end(secret);
  const response = json({ scopes: [] }, 200);
  setCookie(response, { request, secret: "", maxAgeS: 0 });
  return response;
}

function setCookie(
  response: Response,
  { request, secret, maxAgeS }: { readonly request: Request; readonly secret: string; readonly maxAgeS: number },
): void {
  const attributes = `Path=/; Max-Age=${maxAgeS}; HttpOnly; SameSite=Strict`;
  response.headers.set("set-cookie", `${cookieName(request)}=${secret}; ${attributes}`);
}

function secretIn(request: Request): string | null {
  const name = cookieName(request);
  for (const part of (request.headers.get("cookie") ?? "").split(";")) {
    const [key, value] = part.trim().split("=", 2);
    if (key === name && value !== undefined && value !== "") return value;
  }
  return null;
}

/** What a request's cookie lets it do; null without one that counts. */
export function scopesByCookie(request: Request, logins: Pick<Logins, "scopesOf">): readonly Scope[] | null {
  const secret = secretIn(request);
  return secret === null ? null : logins.scopesOf(secret);
}

/** Cookies are shared by all ports of a host, so the name holds ours. */
function cookieName(request: Request): string {
  const port = /:(\d+)$/.exec(request.headers.get("host") ?? "")?.[1] ?? "80";
  return `hyperswap_${port}`;
}
