/** Long work: what runs, how it stands, how it ended, and ending it. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import { define, feed } from "./operation.ts";
import { FEEDS, ROUTES } from "./routes.ts";
import { RunSummaryWire, RunWire, viewRun, viewRunSummary } from "./run_view.ts";

const byId = z.object({ id: z.string().min(1).describe("the run's id") });

export const runs = define({
  name: "runs",
  summary: "Long work under way and lately ended, newest first",
  access: "read",
  input: z.object({}),
  output: z.object({ runs: z.array(RunSummaryWire) }),
  fails: [],
  http: ROUTES.runs,
  cli: { words: ["runs"] },
  tool: false,
  handle: (services) => ({ runs: services.runs.list().map(viewRunSummary) }),
});

export const run = define({
  name: "run",
  summary: "One run: state, progress, and its result once it has ended",
  access: "read",
  input: byId,
  output: RunWire,
  fails: ["not_found"],
  http: ROUTES.run,
  cli: { words: ["runs", "get"], positional: ["id"] },
  tool: { name: "get_run", idempotent: true },
  handle: (services, { id }) => viewRun(services.runs.get(id)),
});

export const cancelRun = define({
  name: "cancel-run",
  summary: "End a run: answers with its last state",
  access: "operate",
  input: byId,
  output: RunWire,
  fails: ["not_found"],
  http: ROUTES["cancel-run"],
  cli: { words: ["runs", "cancel"], positional: ["id"] },
  tool: { name: "cancel_run", destructive: true, idempotent: true },
  accessAs(services, { id }) {
    try {
      return services.runs.get(String(id)).operation;
    } catch (error) {
      // No such run: the call itself will say so.
      if (error instanceof Failure) return null;
      throw error;
    }
  },
  handle: async (services, { id }) => viewRun(await services.runs.cancel(id)),
});

export const runEvents = feed({
  name: "run-events",
  summary: "One run as it goes: its state now, then each change until it has ended",
  access: "read",
  input: byId,
  item: RunWire,
  http: FEEDS["run-events"],
  isShared: false,
  open: (services, { id }, to) =>
    services.runs.follow(id, (view) => {
      to.emit(viewRun(view));
      if (view.state !== "running") to.end();
    }),
});
