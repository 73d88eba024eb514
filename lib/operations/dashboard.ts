/** The dashboard's login link: who may do everything hands a browser a part of it. */
import * as z from "zod";
import { SCOPES } from "../model/services.ts";
import { toIso } from "../model/units.ts";
import { define } from "./operation.ts";
import { time } from "./quantities.ts";
import { ROUTES } from "./routes.ts";

export const dashboard = define({
  name: "dashboard",
  summary: "Make a link that logs one browser in to the dashboard, once and within five minutes",
  access: "admin",
  input: z.object({
    scopes: z.array(z.enum(SCOPES)).min(1).default(["read", "operate", "tune"]).describe(
      "what the browser may then do",
    ),
  }),
  output: z.object({
    url: z.string().nullable().describe("the link, for a browser on this machine; null where the address isn't known"),
    path: z.string().describe("the same below the service's address; its code stays in the browser"),
    expires_at: time("when it stops working unless it was used"),
    scopes: z.array(z.enum(SCOPES)),
  }),
  fails: [],
  http: ROUTES.dashboard,
  cli: { words: ["dashboard"] },
  tool: false,
  handle({ logins }, { scopes }) {
    const { code, untilMs, baseUrl } = logins.link(scopes);
    const path = `/login#${code}`;
    return { url: baseUrl === null ? null : `${baseUrl}${path}`, path, expires_at: toIso(untilMs), scopes };
  },
});
