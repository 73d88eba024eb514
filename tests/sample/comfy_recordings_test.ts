import assert from "node:assert/strict";
import { type RecordedEvent, recordedFiles, recordedSocket } from "../upstream/recorded.ts";
import { watchFakeComfy } from "./watched_comfy.ts";

/** What an observer's watcher must tell of each recording: counts announced, and how the prompts ended. */
const EXPECTED: Readonly<Record<string, { activity: readonly number[]; completed: readonly string[] }>> = {
  blocked: { activity: [1, 0], completed: ["success"] },
  connect: { activity: [], completed: [] },
  duplicate_client_id_both_open: { activity: [1, 0], completed: ["success"] },
  duplicate_client_id_old_closed: { activity: [1, 0], completed: ["success"] },
  error: { activity: [1, 0], completed: ["error"] },
  error_no_client_id: { activity: [1, 0], completed: ["error"] },
  error_oom: { activity: [1, 0], completed: ["error"] },
  feature_flags: { activity: [], completed: [] },
  interrupt: { activity: [1, 0], completed: ["interrupted"] },
  interrupt_no_client_id: { activity: [1, 0], completed: ["interrupted"] },
  pending_delete_clear: { activity: [1, 2, 3, 4, 3, 1, 0], completed: ["success"] },
  pending_delete_last: { activity: [1, 2, 1, 0], completed: ["success"] },
  preview: { activity: [1, 0], completed: ["success"] },
  preview_metadata: { activity: [1, 0], completed: ["success"] },
  preview_no_client_id: { activity: [1, 0], completed: ["success"] },
  progress: { activity: [1, 0], completed: ["success"] },
  progress_absent_client_id: { activity: [1, 0], completed: ["success"] },
  progress_no_client_id: { activity: [1, 0], completed: ["success"] },
  quick: { activity: [1, 0], completed: ["success"] },
  quick_cached: { activity: [1, 0], completed: ["success"] },
  quick_no_client_id: { activity: [1, 0], completed: ["success"] },
  reconnect_while_running: { activity: [1, 0], completed: ["success"] },
  rejected_then_free_idle: { activity: [], completed: [] },
  sd15_first_run: { activity: [1, 0], completed: ["success"] },
  sd15_new_seed: { activity: [1, 0], completed: ["success"] },
};

/** Ids that POST /prompt accepted, in order. */
function acceptedIds(events: readonly RecordedEvent[]): string[] {
  return events.flatMap(({ http }) => http?.status === 200 ? http.body?.prompt_id ?? [] : []);
}

function countOf({ frame }: RecordedEvent): number | null {
  const { type, data } = Object(frame);
  return type === "status" ? data.status.exec_info.queue_remaining : null;
}

async function replay(name: string, options: { readonly withSocket: boolean }): Promise<void> {
  const events = recordedSocket(name);
  const expected = EXPECTED[name];
  assert.ok(expected, `${name} is a recording that nothing is expected of: add it`);
  await using world = await watchFakeComfy({ isOpen: options.withSocket });
  const { clock, server, socket, activity, completed, watch } = world;
  const startMs = clock.monotonicMs();
  const waiting = acceptedIds(events);
  const ends = expected.completed[0] ?? "success";
  for (const event of events.filter(({ to }) => to === "observer")) {
    await clock.advance(Math.max(0, startMs + event.ms - clock.monotonicMs()));
    const count = countOf(event);
    // The server's own state moves with its broadcast: one more was posted, pending ones were deleted, or all is done.
    while (count !== null && server.queued.length < count) server.post(waiting.shift() ?? "");
    if (count === 0 && server.queued.length > 0) server.end(server.queued[0] ?? "", asStatus(ends));
    while (count !== null && server.queued.length > count) server.remove(server.queued.at(-1) ?? "");
    if (options.withSocket) socket.sendRecorded(event.frame);
    // Told in the same turn.
    if (options.withSocket && count !== null) assert.equal(activity.at(-1), count);
    assert.equal(watch.state().executing, (watch.state().queueRemaining ?? 0) > 0);
  }
  await clock.advance(5_000);
  if (options.withSocket) assert.deepEqual(activity.slice(1), expected.activity);
  assert.deepEqual(completed.map(({ status }) => status), expected.completed);
  assert.deepEqual(completed.map(({ promptId }) => promptId), acceptedIds(events).slice(0, expected.completed.length));
  assert.equal(watch.state().queueRemaining, 0);
  assert.equal(watch.isSocketSilent(), false);
}

function asStatus(text: string): "success" | "error" | "interrupted" {
  return text === "error" || text === "interrupted" ? text : "success";
}

const NAMES = recordedFiles("comfyui/ws").map((path) => path.replace(/^comfyui\/ws\/|\.jsonl$/g, ""));

for (const name of NAMES) {
  Deno.test(`an observer of the recorded ${name} tells its activity and its end`, () =>
    replay(name, { withSocket: true }));
}

Deno.test("without the socket, the end of a long recorded run is found all the same", async () => {
  for (const name of ["sd15_first_run", "sd15_new_seed", "reconnect_while_running"]) {
    await replay(name, { withSocket: false });
  }
});
