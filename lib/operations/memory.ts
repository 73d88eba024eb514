/** Host memory: what programs hold, what the page cache holds, what is left. */
import * as z from "zod";
import { Failure } from "../model/failure.ts";
import { define } from "./operation.ts";
import { ROUTES } from "./routes.ts";
import { RamWire, viewRam } from "./tenants_view.ts";

export const memory = define({
  name: "memory",
  summary: "Host memory: programs, page cache and what of it is model files, free and available",
  access: "read",
  input: z.object({}),
  output: RamWire,
  fails: ["unavailable"],
  http: ROUTES.memory,
  cli: { words: ["memory"] },
  tool: { name: "get_host_memory_status", idempotent: true },
  handle: (services) => {
    const { sample, cache = null } = services.live.snapshot();
    const view = viewRam(sample.memory, cache);
    if (view !== null) return view;
    throw new Failure(
      "unavailable",
      `Cannot read host memory: ${sample.sources.meminfo.lastError ?? "no answer yet"}`,
      {
        hint: "HyperSwap needs to read /proc/meminfo",
      },
    );
  },
});
