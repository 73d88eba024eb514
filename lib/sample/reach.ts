import type { Tenant } from "../model/tenants.ts";
import { isUnreached, UpstreamError } from "../upstream/upstream_error.ts";

/** Why an upstream can't be used, and what helps. */
export interface Reach {
  /** "Cannot reach Ollama at http://127.0.0.1:11434: connection refused". */
  readonly reason: string;
  readonly remedy: string;
}

interface Naming {
  readonly title: string;
  readonly start: string;
  readonly key: string;
}

const NAMES: Readonly<Record<Tenant, Naming>> = {
  ollama: { title: "Ollama", start: "Start it (systemctl start ollama)", key: "ollama.url" },
  comfyui: { title: "ComfyUI", start: "Start it (python main.py)", key: "comfyui.url" },
};

/** Puts a failed call into the words of health and of every door. */
export function explainReach(tenant: Tenant, url: string, error: unknown): Reach {
  const { title, start, key } = NAMES[tenant];
  const cause = error instanceof UpstreamError ? error.reason : String(error);
  const reason = `Cannot reach ${title} at ${url}: ${cause}`;
  if (isUnreached(error)) return { reason, remedy: `${start}, or set ${key} to where it listens` };
  if (!(error instanceof UpstreamError)) return { reason, remedy: `Check ${key}` };
  switch (error.kind) {
    case "timeout":
      return { reason, remedy: `It accepts connections but says nothing: see whether ${title} is stopped or stuck` };
    case "http":
    case "protocol":
    case "in_band":
      return error.status === 403
        ? { reason, remedy: `It refuses this Host: set ${key} to a name or address it accepts` }
        : { reason, remedy: `Something else seems to listen there: set ${key} to ${title}'s address` };
    default:
      return { reason, remedy: `${title} hung up: it may be starting or stopping; its log says more` };
  }
}

/** Before the first answer. */
export function awaitFirstAnswer(tenant: Tenant, url: string): Reach {
  return { reason: `Waiting for the first answer of ${NAMES[tenant].title} at ${url}`, remedy: "Wait a few seconds" };
}
