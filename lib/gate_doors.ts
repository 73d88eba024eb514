/**
 * The gate's listeners as they are configured, before the servers of a ground. One that can't be opened costs itself:
 * the service goes on without it, and health says so.
 */
import type { Config } from "./config/schema.ts";
import type { GateOptions } from "./gate/gate.ts";
import type { Ground } from "./ground.ts";
import type { GateDoors, GateUrls } from "./model/admission.ts";
import { messageOf } from "./model/failure.ts";

export interface GateParts extends Pick<GateOptions, "admission" | "clock" | "log" | "guardSocket"> {
  readonly config: Config["gate"];
  readonly ground: Pick<Ground, "ollamaUrl" | "comfyUrl">;
}

export interface OpenDoors {
  readonly urls: GateUrls;
  /** One line for each listener that isn't there. */
  readonly problems: readonly string[];
  /** Waits for what runs, as long as is configured or until `hurry` aborts. */
  close(hurry: AbortSignal): Promise<void>;
}

export async function openDoors({ config, ground, ...parts }: GateParts): Promise<OpenDoors> {
  if (!config.enabled) return { urls: { ollama: null, comfyui: null }, problems: [], close: () => Promise.resolve() };
  const { openGate } = await import("./gate/gate.ts");
  const doors: GateDoors[] = [];
  const problems: string[] = [];
  const open = async (tenant: "ollama" | "comfyui", listen: string): Promise<string | null> => {
    if (listen === "") return null;
    const side = { listen, url: tenant === "ollama" ? ground.ollamaUrl : ground.comfyUrl };
    try {
      const opened = await openGate({ ollama: null, comfyui: null, ...parts, [tenant]: side });
      doors.push(opened);
      return opened.urls[tenant];
    } catch (error) {
      problems.push(messageOf(error));
      parts.log.error("Cannot open the gate", { tenant, error: messageOf(error) });
      return null;
    }
  };
  const socket = (path: string) => path === "" ? "" : `unix:${path}`;
  const onSocket = {
    ollama: await open("ollama", socket(config.ollama_socket)),
    comfyui: await open("comfyui", socket(config.comfyui_socket)),
  };
  const urls = {
    ollama: await open("ollama", config.ollama) ?? onSocket.ollama,
    comfyui: await open("comfyui", config.comfyui) ?? onSocket.comfyui,
  };
  return {
    urls,
    problems,
    close: async (hurry) => {
      const signal = parts.clock.deadline(config.drain_s * 1_000, hurry);
      await Promise.all(doors.map((door) => door.close(signal)));
    },
  };
}
