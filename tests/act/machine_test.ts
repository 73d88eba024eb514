import assert from "node:assert/strict";
import { Machine, type Transition } from "../../lib/act/machine.ts";
import type { Step } from "../../lib/model/events.ts";

type Event = { readonly add: number } | { readonly look: true };

function reduce(state: number, event: Event): Step<number, string> {
  if ("look" in event) return { state, effects: [] };
  return { state: state + event.add, effects: event.add > 10 ? ["big"] : [] };
}

function open(perform: (machine: Machine<number, Event, string>, effect: string) => void) {
  const transitions: Transition<number, Event, string>[] = [];
  const machine: Machine<number, Event, string> = new Machine(0, {
    reduce,
    perform: (effect) => perform(machine, effect),
    record: (transition) => transitions.push(transition),
  });
  return { machine, transitions };
}

Deno.test("an effect sees the state that it was decided with, already stored", () => {
  const seen: number[] = [];
  const { machine } = open((self) => seen.push(self.state));
  machine.send({ add: 11 });
  assert.deepEqual(seen, [11]);
});

Deno.test("events sent from an effect wait for their turn: none is decided inside another", () => {
  const { machine, transitions } = open((self) => {
    self.send({ add: 1 });
    assert.equal(self.state, 11, "the second event ran inside the first one's effects");
  });
  machine.send({ add: 11 });
  assert.equal(machine.state, 12);
  assert.deepEqual(transitions.map((entry) => [entry.before, entry.state]), [[0, 11], [11, 12]]);
});

Deno.test("an event that changes nothing and asks for nothing leaves no trace", () => {
  const { machine, transitions } = open(() => {});
  machine.send({ look: true });
  assert.equal(transitions.length, 0);
});

Deno.test("a reducer that throws doesn't block the mailbox", () => {
  const machine = new Machine<number, Event, string>(0, {
    reduce: (state, event) => {
      if ("add" in event && event.add < 0) throw new RangeError("negative");
      return reduce(state, event);
    },
    perform: () => {},
    record: () => {},
  });
  assert.throws(() => machine.send({ add: -1 }), /negative/);
  machine.send({ add: 2 });
  assert.equal(machine.state, 2);
});
