/**
 * Every door tells the same: each operation gives the same value, and the same error, through REST, MCP, the CLI in the
 * owner's process and the CLI over a socket. A box is opened anew for each door, so that ids and times agree.
 */
import assert from "node:assert/strict";
import type { Operation } from "../../lib/operations/operation.ts";
import { operationNamed, operations } from "../../lib/operations/registry.ts";
import { DOORS } from "./drift_doors.ts";
import type { DriftBox, Input, Said } from "./drift_doors.ts";

export interface DriftOptions {
  readonly open: () => Promise<DriftBox>;
  /** Inputs by operation, beside those that the suite tries anyway. */
  readonly inputs: Readonly<Record<string, readonly Input[]>>;
}

/** One test an operation. */
export function checkDrift(name: string, options: DriftOptions): void {
  for (const operation of operations) {
    Deno.test(`${name}: ${operation.name} is the same through every door`, async () => {
      for (const input of inputsOf(operation, options.inputs)) await compare(operation, input, options);
    });
  }
}

/** Good inputs by the caller, and for each parameter one that can't be right. */
function inputsOf(operation: Operation, inputs: DriftOptions["inputs"]): readonly Input[] {
  const good = inputs[operation.name] ?? [{}];
  const [base = {}] = good;
  const wrong = operation.parameters.flatMap((parameter): Input[] => {
    if (parameter.kind === "number" || parameter.kind === "integer") {
      return [{ ...base, [parameter.name]: "much" }, { ...base, [parameter.name]: -7 }];
    }
    return parameter.choices === null ? [] : [{ ...base, [parameter.name]: "neither" }];
  });
  const missing = operation.parameters.some(({ required }) => required) ? [{}] : [];
  return [...good, ...wrong, ...missing];
}

async function compare(operation: Operation, input: Input, options: DriftOptions): Promise<void> {
  const said = new Map<string, Said>();
  for (const door of Object.keys(DOORS)) {
    if (!reaches(door, operation, input)) continue;
    const box = await options.open();
    try {
      said.set(door, await askAt(door, box, { operation, input }));
    } finally {
      await box.close();
    }
  }
  const [[first, wanted] = ["", null], ...others] = said;
  for (const [door, actual] of others) {
    const where = `${operation.name} ${JSON.stringify(input)}: ${door} differs from ${first}`;
    assert.deepEqual(actual, wanted, where);
  }
}

/** A path has no place for an id that is missing, and some operations have no tool or command. */
function reaches(door: string, operation: Operation, input: Input): boolean {
  const needsPath = [...operation.http.path.matchAll(/\{(\w+)\}/g)].some(([, name]) => input[name!] === undefined);
  if (door === "REST") return !needsPath;
  return door === "MCP" ? operation.tool !== false : operation.cli !== false;
}

export interface StoryOptions {
  readonly open: () => Promise<DriftBox>;
  /** What is asked, one after the other, of one box per door. */
  readonly story: readonly (readonly [string, Input])[];
}

/** One test: the same story told through each door, each step compared. */
export function checkStory(name: string, { open, story }: StoryOptions): void {
  Deno.test(`${name}: a story is the same through every door`, async () => {
    // One after the other: a lab clock takes sockets for settled when nothing moves in this thread for a while.
    const told: [string, (Said | null)[]][] = [];
    for (const door of Object.keys(DOORS)) told.push([door, await tell(door, story, open)]);
    const [[first, wanted] = ["", []], ...others] = told;
    for (const [door, heard] of others) {
      story.forEach(([operation, input], step) => {
        const [one, other] = [wanted[step], heard[step]];
        const where = `step ${step + 1}, ${operation} ${JSON.stringify(input)}: ${door} differs from ${first}`;
        if (one !== null && other !== null) assert.deepEqual(other, one, where);
      });
    }
  });
}

/** What the door said at each step; null where it doesn't offer the operation. */
async function tell(door: string, story: StoryOptions["story"], open: StoryOptions["open"]): Promise<(Said | null)[]> {
  const box = await open();
  const heard: (Said | null)[] = [];
  try {
    for (const [name, input] of story) {
      const operation = operationNamed(name);
      await box.align?.();
      heard.push(reaches(door, operation, input) ? await askAt(door, box, { operation, input }) : null);
    }
  } finally {
    await box.close();
  }
  return heard;
}

async function askAt(door: string, box: DriftBox, call: { operation: Operation; input: Input }): Promise<Said> {
  const said = await DOORS[door]!(box, call.operation, call.input);
  return JSON.parse((box.steady ?? String)(JSON.stringify(said)));
}
