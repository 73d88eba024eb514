/** A card whose levers are plain values, behind the real reducer: it answers as the service does. */
import { viewGovernor, viewTuning } from "../../lib/decide/card_view.ts";
import { Failure } from "../../lib/model/failure.ts";
import type { Card } from "../../lib/model/services.ts";
import { openWorld } from "../decide/card_world.ts";

export function fakeCard(note: (name: string, what: unknown) => void): Card {
  const world = openWorld();
  world.answerWith = (lever, value) => {
    const limits = world.state.card?.limits.levers[lever];
    const stock = limits?.adjustable === true ? limits.stock : null;
    const readBack = value === "stock" && stock !== null ? stock : value;
    return { lever, wanted: value, readBack, verdict: "honoured", evidence: "read back", remedy: null, atMs: 0 };
  };
  const tuning = () => viewTuning(world.state, (ms) => ms);
  return {
    tuning,
    governor: () => viewGovernor(world.state, (ms) => ms),
    tune(request) {
      note("tune", request);
      const reply = world.ask(request);
      if (reply === null) throw new TypeError("Cannot leave a request unanswered");
      if (reply.kind === "refused") return Promise.reject(new Failure(reply.code, reply.message, { hint: reply.hint }));
      const asked = new Set(reply.levers);
      return Promise.resolve({
        message: reply.message,
        levers: tuning().levers.filter(({ lever }) => asked.has(lever)),
      });
    },
  };
}
