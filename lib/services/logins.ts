/** The dashboard's logins: a link that works once becomes a session. Only digests are kept, and nothing outlives the service. */
import { createHash } from "node:crypto";
import { Failure } from "../model/failure.ts";
import type { Clock } from "../model/ports.ts";
import type { Login, LoginLink, Logins, Scope } from "../model/services.ts";
import type { WallMs } from "../model/units.ts";

/** Time to click. */
const LINK_MS = 5 * 60_000;
/** A working day; then a new link is due. */
const SESSION_MS = 12 * 3_600_000;
/** Of each at once; beyond, the oldest goes. */
const MAX_LINKS = 16;
const MAX_SESSIONS = 64;

interface Kept {
  readonly scopes: readonly Scope[];
  readonly untilMs: WallMs;
}

export function createLogins(clock: Clock): Logins {
  return new LoginTable(clock);
}

class LoginTable implements Logins {
  readonly #clock: Clock;
  readonly #links = new Map<string, Kept>();
  readonly #sessions = new Map<string, Kept>();

  #baseUrl: string | null = null;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  servedAt(baseUrl: string): void {
    this.#baseUrl = baseUrl;
  }

  link(scopes: readonly Scope[]): LoginLink {
    const code = this.#secret();
    const untilMs = this.#clock.wallMs() + LINK_MS;
    keep(this.#links, digestOf(code), { kept: { scopes, untilMs }, most: MAX_LINKS });
    return { code, untilMs, baseUrl: this.#baseUrl };
  }

  redeem(code: string): Login {
    const digest = digestOf(code);
    const link = this.#links.get(digest);
    this.#links.delete(digest);
    if (link === undefined || link.untilMs <= this.#clock.wallMs()) {
      throw new Failure("unauthorized", "Cannot log in: the link was used before, or it is too old", {
        hint: "hyperswap dashboard prints a new one",
      });
    }
    const secret = this.#secret();
    const kept = { scopes: link.scopes, untilMs: this.#clock.wallMs() + SESSION_MS };
    keep(this.#sessions, digestOf(secret), { kept, most: MAX_SESSIONS });
    return { secret, ...kept };
  }

  scopesOf(secret: string): readonly Scope[] | null {
    const session = this.#sessions.get(digestOf(secret));
    return session === undefined || session.untilMs <= this.#clock.wallMs() ? null : session.scopes;
  }

  end(secret: string): void {
    this.#sessions.delete(digestOf(secret));
  }

  /** 244 random bits. */
  #secret(): string {
    return `${this.#clock.uuid()}${this.#clock.uuid()}`.replaceAll("-", "");
  }
}

/** Looked up by its digest: how long that takes tells nothing about the secret. */
function digestOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64url");
}

function keep(
  table: Map<string, Kept>,
  digest: string,
  { kept, most }: { readonly kept: Kept; readonly most: number },
): void {
  table.set(digest, kept);
  const [oldest] = table.keys();
  if (table.size > most && oldest !== undefined) table.delete(oldest);
}
