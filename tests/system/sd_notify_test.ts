import assert from "node:assert/strict";
import type { Log } from "../../lib/model/ports.ts";
import { sdNotify } from "../../lib/system/sd_notify.ts";

function silentLog(warnings: string[]): Log {
  return { debug: () => {}, info: () => {}, warn: (message) => warnings.push(message), error: () => {} };
}

Deno.test("each message is one datagram to the socket it was given", () => {
  const sent: string[] = [];
  const notify = sdNotify({
    socketPath: "@/org/freedesktop/systemd1/notify",
    sendDatagram: (path, payload) => sent.push(`${path} ${new TextDecoder().decode(payload)}`),
    log: silentLog([]),
  });
  notify.ready("Serving on :9090");
  notify.watchdog();
  notify.status("two\nlines");
  notify.reloading(12n);
  notify.stopping("Stopping");
  const to = "@/org/freedesktop/systemd1/notify ";
  assert.deepEqual(sent, [
    `${to}READY=1\nSTATUS=Serving on :9090`,
    `${to}WATCHDOG=1`,
    `${to}STATUS=two lines`,
    `${to}RELOADING=1\nMONOTONIC_USEC=12`,
    `${to}STOPPING=1\nSTATUS=Stopping`,
  ]);
});

Deno.test("without systemd nothing is sent", () => {
  const notify = sdNotify({
    socketPath: null,
    sendDatagram: () => assert.fail("sent"),
    log: silentLog([]),
  });
  notify.ready("");
  notify.watchdog();
});

Deno.test("a socket that can't be reached is said once and costs nothing else", () => {
  const warnings: string[] = [];
  const notify = sdNotify({
    socketPath: "/run/gone",
    sendDatagram: () => {
      throw new Error("ECONNREFUSED");
    },
    log: silentLog(warnings),
  });
  notify.watchdog();
  notify.watchdog();
  assert.deepEqual(warnings, ["Cannot notify systemd on /run/gone: ECONNREFUSED"]);
});
