/**
 * The composition root: the only place that opens libraries, database, sockets and the rest, in one order, and closes
 * them in one order. What it opens is joined by house.ts.
 */
import { parseArgs } from "node:util";
import { openLibc } from "../ffi/libc.ts";
import { FLAG_KEYS } from "./config/keys.ts";
import { LiveSettings } from "./config/live_settings.ts";
import { loadConfig, type Loaded } from "./config/load.ts";
import { placesOf } from "./config/places.ts";
import type { Ground } from "./ground.ts";
import type { House } from "./house.ts";
import { Failure, FAILURES, messageOf } from "./model/failure.ts";
import { hostUrl } from "./model/host_url.ts";
import { VERSION } from "./model/version.ts";
import type { Operation } from "./operations/operation.ts";
import { memoryStore } from "./record/memory_store.ts";
import { readOnlyStore } from "./record/read_only_store.ts";
import { accessOf, type Base, openHouseOn, openService, reportDefect, retentionOf } from "./service.ts";
import { type AccessPolicy, ALL_SCOPES, refuseBind } from "./show/access.ts";
import { type Invoker, localInvoker } from "./show/invoker.ts";
import { systemClock } from "./system/clock.ts";
import { stderrLog } from "./system/log.ts";
import { type Owner, takeLock } from "./system/owner_lock.ts";
import { watchSignals } from "./system/signals.ts";
import { connectArchive } from "./workers/archive_client.ts";
import { connectStore } from "./workers/store_client.ts";

/** Everything that an ordered end takes, together, once the gate has drained. */
const SHUTDOWN_MS = 10_000;

/** `hyperswap serve`: the service for this machine's card. Resolves with the exit code after an ordered end. */
export async function serve(args: readonly string[]): Promise<number> {
  const { openHardware } = await import("./ground.ts");
  const base = openBase(args);
  return await run(
    base,
    accessOf,
    () => Promise.resolve(openHardware(base.loaded.config, { ...base, isOwner: true })),
  );
}

/** `hyperswap demo`: the same service on a simulated box, in a folder of its own unless one is named. */
export async function demo(args: readonly string[]): Promise<number> {
  const { openSimulation } = await import("./ground.ts");
  const dir = await Deno.makeTempDir({ prefix: "hyperswap_demo_" });
  try {
    const base = openBase(args, { "state-dir": `${dir}/state`, socket: `${dir}/hyperswap.sock` });
    // Nothing real can be harmed on a simulated box: whoever is on this machine may try everything, unless told otherwise.
    const access = (loaded: Loaded) => ({
      ...accessOf(loaded),
      ...(loaded.origins["access.loopback"] === undefined ? { loopback: [...ALL_SCOPES] } : {}),
    });
    return await run(base, access, () => openSimulation({ ...base, isOwner: true, dir: `${dir}/box` }));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Reads flags and configuration and opens what needs nothing else. `defaults` stand where neither says otherwise. */
export function openBase(args: readonly string[], defaults: Readonly<Record<string, string>> = {}): Base {
  const flags = readFlags(args);
  const readAgain = () => loadConfig({ flags: { ...defaults, ...flags } });
  const loaded = readAgain();
  const settings = new LiveSettings(loaded.config);
  const log = stderrLog({
    format: loaded.config.log.format,
    get level() {
      return settings.logLevel;
    },
  });
  const libc = openLibc();
  const places = placesOf(loaded, libc.effectiveUid === 0);
  return { loaded, settings, readAgain, libc, log, clock: systemClock(), places };
}

function readFlags(args: readonly string[]): Record<string, string> {
  const names = ["config", ...Object.keys(FLAG_KEYS)];
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]));
  try {
    const { values } = parseArgs({ args: [...args], options });
    return Object.fromEntries(
      Object.entries(values).flatMap(([name, value]) => typeof value === "string" ? [[name, value]] : []),
    );
  } catch (error) {
    throw new Failure("invalid_input", `Cannot read the arguments: ${messageOf(error)}`, {
      hint: `It takes ${names.map((name) => `--${name}`).join(", ")}`,
      cause: error,
    });
  }
}

async function run(
  base: Base,
  accessTo: (loaded: Loaded) => AccessPolicy,
  openGround: () => Promise<Ground>,
): Promise<number> {
  const { loaded, log, clock, places } = base;
  const { host } = loaded.config.server;
  const access = safeAccess(host, accessTo(loaded));
  await Deno.mkdir(places.stateDir, { recursive: true });
  const owner: Owner = {
    pid: Deno.pid,
    url: hostUrl(host, loaded.config.server.port),
    socket: places.socketPath,
    since: new Date(clock.wallMs()).toISOString(),
  };
  using lock = takeLock(`${places.stateDir}/owner.lock`, base.libc, owner);
  const ground = await openGround();
  const service = await openService(base, { ground, access, owner });
  lock.tell({ ...owner, url: service.listening.url });
  const ended = Promise.withResolvers<number>();
  const hurry = new AbortController();
  let isStopping = false;
  service.over.catch((error) => {
    // Better gone, and started again by systemd, than alive and blind.
    log.error("Cannot go on", { error: messageOf(error) });
    ended.resolve(FAILURES[error instanceof Failure ? error.code : "internal"].exit);
  });
  const reload = async () => {
    const next = base.readAgain();
    await service.reload(next, safeAccess(host, accessTo(next)));
  };
  using _signals = asDisposable(watchSignals({
    onStop: (signal) => {
      log.info(`Stopping on ${signal}${isStopping ? ", at once" : ""}`);
      if (isStopping) hurry.abort();
      isStopping = true;
      ended.resolve(0);
    },
    onReload: () => {
      reload().catch((error) =>
        log.error("Cannot take over the configuration: the one before stays in force", { error: messageOf(error) })
      );
    },
  }));
  log.info(
    `HyperSwap ${VERSION} is at ${service.listening.url}${ground.simulation === null ? "" : ` (${ground.simulation})`}`,
  );
  const code = await ended.promise;
  const patienceMs = loaded.config.gate.drain_s * 1_000 + SHUTDOWN_MS;
  await Promise.race([service.close(hurry.signal), clock.sleep(patienceMs)]);
  return code;
}

/** Who may do what; throws Failure where that would let in whoever reaches the address. */
function safeAccess(host: string, access: AccessPolicy): AccessPolicy {
  const unsafe = refuseBind(host, access);
  if (unsafe !== null) throw new Failure(unsafe.code, unsafe.message, { hint: unsafe.hint ?? "" });
  return access;
}

/** The one operation that changes something and needs no service. */
function isRestore({ cli }: Operation): boolean {
  return cli !== false && cli.words.join(" ") === "restore";
}

/**
 * Where a call goes that no service takes: to a house that only reads (SPEC 7, One owner). `isBare`: with no more rights
 * than a stranger on this machine has.
 */
export function openReadingInvoker(args: readonly string[], isBare: boolean): Invoker {
  const base = openBase([...args, "--log-level=error"]);
  let house: Promise<Reader> | null = null;
  const scopes = ALL_SCOPES;
  const report = (error: unknown, operation: string) => reportDefect(base, error, operation);
  const inner = localInvoker({
    services: async () => (await (house ??= openReader(base))).services,
    scopes,
    report,
    isReadOnly: true,
  });
  return {
    ...inner,
    invoke: async (operation, input, call) => {
      if (isBare || !isRestore(operation)) return await inner.invoke(operation, input, call);
      const { openLoneCard } = await import("./lone_card.ts");
      await using card = await openLoneCard(base);
      return await localInvoker({ services: () => card.services, scopes, report }).invoke(operation, input, call);
    },
    close: () => {
      inner.close();
      house?.then((reader) => reader.close(), (error) => base.log.warn(messageOf(error)));
    },
  };
}

interface Reader {
  readonly services: House["services"];
  close(): Promise<void>;
}

/** A house that looks and touches nothing, for reads where no service runs. */
async function openReader(base: Base): Promise<Reader> {
  const { openHardware } = await import("./ground.ts");
  const ground = openHardware(base.loaded.config, base);
  const hasHistory = await Deno.stat(base.places.databasePath).then(() => true, () => false);
  const store = hasHistory
    ? connectStore({
      path: base.places.databasePath,
      retention: retentionOf(base.loaded),
      clock: base.clock,
      log: base.log,
    })
    : memoryStore();
  const archive = hasHistory ? connectArchive({ path: base.places.databasePath, clock: base.clock }) : null;
  const still: Ground = { ...ground, policy: { ...ground.policy, mode: "paused" } };
  const house = await openHouseOn(still, base, {
    store: readOnlyStore(store),
    ...(archive === null ? {} : { archive }),
    ticked: () => {},
  });
  await house.ready;
  return {
    services: house.services,
    close: async () => {
      await house.close();
      await ground.close();
      archive?.close();
      await store.close();
    },
  };
}

function asDisposable(timer: { stop(): void }): Disposable {
  return { [Symbol.dispose]: () => timer.stop() };
}
