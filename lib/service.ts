/** One service: record, house, doors and lock on a ground, opened in one order and closed in one order. */
import type { Libc } from "../ffi/libc.ts";
import { type LiveSettings, reloadText } from "./config/live_settings.ts";
import type { Loaded } from "./config/load.ts";
import type { Places } from "./config/places.ts";
import { policyOf } from "./config/policy.ts";
import { tuningPolicyOf } from "./config/tuning.ts";
import { openDoors } from "./gate_doors.ts";
import type { Ground } from "./ground.ts";
import { type House, openHouse } from "./house.ts";
import type { HousePorts } from "./house_ports.ts";
import { Failure, messageOf } from "./model/failure.ts";
import type { Archive } from "./model/analytics.ts";
import type { Clock, Log, Store } from "./model/ports.ts";
import type { Sample } from "./model/sample.ts";
import type { About } from "./model/services.ts";
import { VERSION } from "./model/version.ts";
import type { Retention } from "./record/retention.ts";
import { tuningFile } from "./record/tuning_file.ts";
import { DEFAULT_DESKTOP } from "./sample/attribution.ts";
import type { CatalogueSettings } from "./sample/catalogue.ts";
import type { AccessPolicy } from "./show/access.ts";
import type { Listening } from "./show/listen.ts";
import { openFiles } from "./system/files.ts";
import { type Owner, type OwnerLock, takeLock } from "./system/owner_lock.ts";
import { sdNotify } from "./system/sd_notify.ts";
import { tcpLines } from "./system/tcp_lines.ts";
import { connectComfy } from "./upstream/comfy.ts";
import { connectOllama } from "./upstream/ollama.ts";
import { connectArchive } from "./workers/archive_client.ts";
import { connectStore } from "./workers/store_client.ts";

const DAY_MS = 86_400_000;

/** What stands before anything is opened. */
export interface Base {
  /** As it was at the start. */
  readonly loaded: Loaded;
  readonly settings: LiveSettings;
  /** The same files, variables and flags, read now. Throws Failure invalid_input. */
  readonly readAgain: () => Loaded;
  readonly places: Places;
  readonly libc: Libc;
  readonly clock: Clock;
  readonly log: Log;
}

export interface Service {
  readonly listening: Listening;
  /** Takes over what of a configuration that was read again can change while it runs; the rest is named. */
  reload(next: Loaded, access: AccessPolicy): Promise<void>;
  /** See House.over. */
  readonly over: Promise<void>;
  /** Answers that run at the gate may end before, until `hurry` aborts. */
  close(hurry: AbortSignal): Promise<void>;
}

export async function openService(
  base: Base,
  { ground, access, owner }: { readonly ground: Ground; readonly access: AccessPolicy; readonly owner: Owner },
): Promise<Service> {
  const { loaded, log, clock, places, libc } = base;
  const { notifySocket } = loaded.surroundings;
  const systemd = sdNotify({
    socketPath: notifySocket,
    log,
    sendDatagram: (address, data) => libc.sendDatagram(address, data),
  });
  const store = connectStore({ path: places.databasePath, retention: retentionOf(loaded), clock, log });
  const archive = connectArchive({ path: places.databasePath, clock });
  const card = new CardClaim(base, owner, ground.simulation !== null);
  const house = await openHouseOn(ground, base, {
    store,
    tuning: {
      control: ground.card,
      book: tuningFile(`${places.stateDir}/tuning.json`, log),
      policy: tuningPolicyOf(loaded.config),
    },
    archive,
    ticked: (sample) => {
      card.see(sample);
      systemd.watchdog();
    },
  });
  const report = (error: unknown, operation: string) => reportDefect(base, error, operation);
  const [{ openRest }, { listen }, { returnMemory }, { assets }] = await Promise.all([
    import("./show/rest.ts"),
    import("./show/listen.ts"),
    import("./show/memory_return.ts"),
    import("../static/assets.ts"),
  ]);
  let admitting = access;
  const rest = openRest({ services: house.services, clock, access: () => admitting, assets, report });
  const { host: hostname, port } = loaded.config.server;
  const listening = await listen({
    rest,
    hostname,
    port,
    socketPath: places.socketPath,
    guard: { clock, lines: tcpLines(libc) },
    guardSocket: guardSocket(libc),
  });
  await Promise.race([house.ready, house.over]);
  const doors = await openDoors({
    config: { ...loaded.config.gate, ...ground.gate },
    ground,
    admission: house.admission,
    clock,
    log,
    guardSocket: guardSocket(libc),
  });
  house.admission.opened(doors);
  ground.through?.(doors.urls);
  systemd.ready(`Listening on ${listening.url}`);
  await store.append({
    atMs: clock.wallMs(),
    kind: "service",
    fields: { message: `HyperSwap ${VERSION} started`, version: VERSION },
  });
  house.services.logins.servedAt(listening.url);
  const returning = returnMemory({ clock, streams: () => rest.streams.clients, trim: () => libc.trimMemory() });
  const close = async (hurry: AbortSignal) => {
    returning.stop();
    systemd.stopping("Stopping");
    // What is held passes once nobody decides any more, and ends with what else runs there.
    house.admission.end();
    ground.hush?.();
    await doors.close(hurry);
    // Streams first: a server that waits for its requests would wait for them for ever.
    await rest.close();
    await listening.stop();
    await house.close();
    await ground.close();
    archive.close();
    await store.close();
    card[Symbol.dispose]();
  };
  const reload = async (next: Loaded, nextAccess: AccessPolicy) => {
    admitting = nextAccess;
    const message = reloadText(base.settings.take(next.config));
    const atMs = clock.monotonicMs();
    house.send({ type: "configured", atMs, policy: { ...policyOf(next.config), ...ground.policy } });
    house.send({ type: "tuningConfigured", atMs, policy: tuningPolicyOf(next.config) });
    log.info(message);
    await store.append({ atMs: clock.wallMs(), kind: "service", fields: { message, version: VERSION } });
  };
  return { listening, reload, over: house.over, close };
}

/** The house on a ground, with clients for the servers the ground names. */
export async function openHouseOn(
  ground: Ground,
  { clock, log, loaded, settings }: Pick<Base, "clock" | "log" | "loaded" | "settings">,
  { store, archive, tuning, ticked }: {
    readonly store: Store;
    /** Left out, the card is only read. */
    readonly tuning?: HousePorts["tuning"];
    readonly archive?: Archive;
    readonly ticked: (sample: Sample) => void;
  },
): Promise<House> {
  const about: About = { version: VERSION, pid: Deno.pid, startedAtMs: clock.wallMs(), simulation: ground.simulation };
  return await openHouse({
    clock,
    log,
    gpu: ground.gpu,
    proc: ground.proc,
    tenants: ground.tenants,
    ollama: connectOllama({ url: ground.ollamaUrl, clock }),
    comfy: connectComfy({ url: ground.comfyUrl, clock }),
    store,
    endRunner: ground.endRunner,
    ...(archive === undefined ? {} : { archive }),
    ...(tuning === undefined ? {} : { tuning }),
    desktop: [...DEFAULT_DESKTOP, ...loaded.config.attribution.desktop],
    record: (row) => store.telemetry(row),
    policy: { ...policyOf(loaded.config), ...ground.policy },
    about,
    cache: {
      pageCache: ground.pageCache,
      files: openFiles(ground.fileRoot === null ? {} : { root: ground.fileRoot }),
      settings: ground.fileRoot === null ? placesOfModels(loaded) : NO_PLACES,
      policy: settings.cachePolicy,
    },
    ticked,
  });
}

const NO_PLACES: CatalogueSettings = {
  ollamaStores: [],
  comfyFolders: [],
  comfyExtraFiles: [],
  linkTargets: [],
  home: null,
};

function placesOfModels({ config, surroundings }: Loaded): CatalogueSettings {
  return {
    ollamaStores: config.ollama.models,
    comfyFolders: config.comfyui.folders,
    comfyExtraFiles: config.comfyui.extra_model_paths,
    linkTargets: config.warm.roots,
    home: surroundings.home,
  };
}

/** The card's lock, taken as soon as its uuid is known; a card that somebody else owns ends this service. */
class CardClaim implements Disposable {
  #lock: OwnerLock | null = null;
  readonly #base: Base;
  readonly #owner: Owner;
  #isSettled: boolean;

  constructor(base: Base, owner: Owner, isSimulated: boolean) {
    this.#base = base;
    this.#owner = owner;
    this.#isSettled = isSimulated;
  }

  see(sample: Sample): void {
    if (this.#isSettled || !sample.gpu.available) return;
    this.#isSettled = true;
    const path = `/run/lock/hyperswap-${sample.gpu.facts.uuid}.lock`;
    try {
      this.#lock = takeLock(path, this.#base.libc, this.#owner);
    } catch (error) {
      const details = error instanceof Failure ? error.details : null;
      if (details === null || details["owner"] === undefined) {
        this.#base.log.warn(`Cannot lock the card: ${messageOf(error)}`);
        return;
      }
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#lock?.[Symbol.dispose]();
  }
}

export function retentionOf({ config }: Loaded): Retention {
  const { raw_days: rawDays, minute_days: minuteDays, hour_days: hourDays, event_days: eventDays } = config.history;
  return {
    telemetryMs: rawDays * DAY_MS,
    minutesMs: minuteDays * DAY_MS,
    hoursMs: hourDays * DAY_MS,
    eventsMs: eventDays * DAY_MS,
  };
}

/** Who may do what, with the tokens read from their files. */
export function accessOf({ config }: Loaded): AccessPolicy {
  const tokens = config.access.tokens.map(({ name, secret, secret_file: file, secret_env: variable, scopes }) => {
    if (variable !== "" && secret === "") {
      throw new Failure("invalid_input", `Cannot read the token "${name}": the variable ${variable} isn't set`, {
        hint: "Set it for the service, for example with systemd's EnvironmentFile=, or use secret_file",
      });
    }
    if (file === "") return { name, secret, scopes };
    try {
      return { name, secret: Deno.readTextFileSync(file).split("\n")[0]?.trim() ?? "", scopes };
    } catch (error) {
      throw new Failure("invalid_input", `Cannot read the token "${name}" from ${file}: ${messageOf(error)}`, {
        cause: error,
      });
    }
  });
  return { loopback: config.access.loopback, hosts: config.access.hosts, tokens };
}

/** Mode 0660 and, where it exists, the group hyperswap: the socket may do everything. */
function guardSocket(libc: Libc): (path: string) => void {
  return (path) => {
    libc.chmod(path, 0o660);
    const gid = groupId(libc, "hyperswap");
    if (gid !== null && libc.effectiveUid === 0) libc.chown(path, { uid: 0, gid });
  };
}

function groupId(libc: Libc, name: string): number | null {
  const line = libc.readText("/etc/group").split("\n").find((entry) => entry.startsWith(`${name}:`));
  const gid = line?.split(":")[2];
  return gid === undefined ? null : Number(gid);
}

export function reportDefect({ clock, log }: Pick<Base, "clock" | "log">, error: unknown, operation: string): string {
  const id = clock.uuid().slice(0, 8);
  log.error(`Defect in ${operation}`, {
    id,
    error: error instanceof Error ? error.stack ?? error.message : String(error),
  });
  return id;
}
