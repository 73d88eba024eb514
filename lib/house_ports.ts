import type { Archive } from "./model/analytics.ts";
import type { TelemetryRow } from "./model/history.ts";
import type { Policy } from "./model/policy.ts";
import type { Clock, EndRunner, Gpu, Log, OllamaApi, Proc, Store } from "./model/ports.ts";
import type { Sample } from "./model/sample.ts";
import type { About } from "./model/services.ts";
import type { TenantProcesses } from "./sample/tenant_processes.ts";
import type { CachePorts } from "./services/cache_keeper.ts";
import type { TuningPorts } from "./services/card_keeper.ts";
import type { ComfyClient } from "./upstream/comfy.ts";

/** What a house stands on: hardware, servers and record, all of them opened by somebody else. */
export interface HousePorts {
  readonly clock: Clock;
  readonly log: Log;
  readonly gpu: Gpu;
  readonly proc: Proc;
  readonly ollama: OllamaApi;
  readonly comfy: ComfyClient;
  readonly store: Store;
  /** Long reads of the record; left out, there is nothing to look back on. */
  readonly archive?: Archive;
  readonly tenants: TenantProcesses;
  /** Names of display servers and compositors, for attribution. */
  readonly desktop: readonly string[];
  readonly record: (row: TelemetryRow) => void;
  readonly policy: Policy;
  readonly about: About;
  /** Model files and the page cache; left out, nothing is catalogued or warmed. */
  readonly cache?: CachePorts;
  /** Ends one process; left out, nothing can be ended. */
  readonly endRunner?: EndRunner;
  /** The card's writer; left out, nothing is set. */
  readonly tuning?: TuningPorts;
  /** Fed by completed ticks. What it throws ends the loop. */
  readonly ticked: (sample: Sample) => void;
}
