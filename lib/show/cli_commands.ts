/** The registry as subcommands: words, positionals, flags and help of every operation. */
import { buildCommand, buildRouteMap } from "@stricli/core";
import type { Command, CommandContext, RouteMap } from "@stricli/core";
import { Failure } from "../model/failure.ts";
import type { Operation } from "../operations/operation.ts";
import { fromText, wantedOf } from "../operations/parameters.ts";
import type { Parameter } from "../operations/parameters.ts";

/** Where the service is, as flags say; null where they don't. */
export interface CliAddress {
  readonly host: string | null;
  readonly port: string | null;
  readonly socket: string | null;
  readonly token: string | null;
  /** True: with no more rights than a stranger on this machine has; neither the socket nor our own token counts. */
  readonly isBare?: boolean;
}

/** One call as the command line spells it. */
export interface CliCall {
  readonly operation: Operation;
  readonly input: Readonly<Record<string, unknown>>;
  readonly address: CliAddress;
  readonly isJson: boolean;
  readonly isWatch: boolean;
}

/** First words of the commands that have owners of their own. */
export type OwnWord =
  | "serve"
  | "demo"
  | "top"
  | "export"
  | "mcp"
  | "config"
  | "doctor"
  | "install"
  | "uninstall"
  | "completions";

/** A command that isn't an operation: only listed and helped here; what follows its words goes to its owner. */
export interface ExtraCommand {
  readonly words: readonly [OwnWord, ...string[]];
  readonly brief: string;
  readonly flags: Readonly<Record<string, string>>;
}

/** Flags of such commands that stand alone; the others take a value. */
export const SWITCHES: readonly string[] = ["json", "dry-run", "print", "sse"];

export interface CommandTreeOptions {
  readonly operations: readonly Operation[];
  readonly extras: readonly ExtraCommand[];
  /** Runs one call; its own failures are its own to tell. */
  readonly call: (call: CliCall) => Promise<void>;
}

type Flags = Readonly<Record<string, unknown>>;

const ADDRESS_FLAGS = {
  host: text("the service's host"),
  port: text("the service's port"),
  socket: text("the service's unix socket"),
  token: text("a token of access.tokens"),
} as const;

/** Commands by word; a word that is both a command and a group has the command as its default. */
interface Branch {
  command: Command<CommandContext> | null;
  brief: string;
  readonly children: Map<string, Branch>;
}

/** The tree that the parser walks. */
export function commandTree(options: CommandTreeOptions): RouteMap<CommandContext> {
  const root: Branch = { command: null, brief: "", children: new Map() };
  for (const operation of options.operations) {
    if (operation.cli === false) continue;
    const branch = branchAt(root, operation.cli.words);
    branch.command = operationCommand(operation, options);
    branch.brief = operation.summary;
  }
  for (const extra of options.extras) {
    const branch = branchAt(root, extra.words);
    branch.command = extraCommand(extra);
    branch.brief = extra.brief;
  }
  return routeMap(root, {
    brief: "One GPU, Ollama and ComfyUI: who holds it, who gets it, and why",
    fullDescription: "Without a command: status. --json on any command prints one JSON document on stdout.\n" +
      "Exit codes: 0 ok, 2 bad input, 3 not found, 4 busy, 5 unavailable, 6 not allowed, 7 upstream failed, " +
      "8 won't fit, 9 not released, 10 degraded, 11 broken, 70 defect, 130 cancelled.",
  });
}

function branchAt(root: Branch, words: readonly string[]): Branch {
  return words.reduce((branch, word) => {
    const next = branch.children.get(word) ?? { command: null, brief: "", children: new Map() };
    branch.children.set(word, next);
    return next;
  }, root);
}

function routeMap(branch: Branch, docs: { brief: string; fullDescription?: string }): RouteMap<CommandContext> {
  const routes = Object.fromEntries([...branch.children].map(([word, child]) => [word, target(child)]));
  return branch.command === null
    ? buildRouteMap({ docs, routes })
    : buildRouteMap({ docs, routes: { ...routes, show: branch.command }, defaultCommand: "show" });
}

function target(branch: Branch): Command<CommandContext> | RouteMap<CommandContext> {
  return branch.command !== null && branch.children.size === 0
    ? branch.command
    : routeMap(branch, { brief: branch.brief || briefOf(branch) });
}

/** A group without a command of its own is described by what it holds. */
function briefOf(branch: Branch): string {
  return [...branch.children.keys()].join(", ");
}

function operationCommand(operation: Operation, options: CommandTreeOptions): Command<CommandContext> {
  const { parameters } = operation;
  const positional = (operation.cli === false ? [] : operation.cli.positional ?? []).map((name) =>
    named(parameters, name)
  );
  return buildCommand<Flags, readonly unknown[]>({
    docs: { brief: operation.summary, customUsage: [[...positional.map(usageOf), "[flags]"].join(" ")] },
    // Flags come from data, so the types that stricli would infer from literals can't be had.
    parameters: {
      flags: {
        ...Object.fromEntries(parameters.flatMap(flagsOf)),
        json: { kind: "boolean", brief: "print one JSON document", default: false },
        ...(isWatchable(operation)
          ? { watch: { kind: "boolean", brief: "go on showing it as it changes", default: false } }
          : {}),
        ...ADDRESS_FLAGS,
      },
      positional: { kind: "tuple", parameters: positional.map(positionalOf) },
    } as never,
    async func(flags, ...args) {
      await options.call({
        operation,
        input: inputOf(parameters, { flags, args, positional }),
        address: addressOf(flags),
        isJson: flags["json"] === true,
        isWatch: flags["watch"] === true,
      });
    },
  });
}

/** What only looks may look again. */
export function isWatchable({ access, isLong }: Operation): boolean {
  return access === "read" && !isLong;
}

function usageOf(parameter: Parameter): string {
  const name = parameter.name.replaceAll("_", "-");
  return parameter.required ? `<${name}>` : `[<${name}>]`;
}

/** The service's address as the flags give it. */
export function addressOf(flags: Flags): CliAddress {
  const text = (name: string) => typeof flags[name] === "string" ? flags[name] : null;
  return { host: text("host"), port: text("port"), socket: text("socket"), token: text("token") };
}

function named(parameters: readonly Parameter[], name: string): Parameter {
  const found = parameters.find((parameter) => parameter.name === name);
  if (found === undefined) throw new TypeError(`Cannot offer ${name} as an argument: there is no such parameter`);
  return found;
}

/** `keep_alive` → `keepAlive`, which the parser reads as `--keep-alive`. */
function camel(name: string): string {
  return name.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/** A parameter's flag, and a hidden one for each alias. Everything arrives as text and is checked by `invoke` alone. */
function flagsOf(parameter: Parameter): [string, unknown][] {
  const names = [parameter.name, ...parameter.aliases];
  return names.map((name) => [camel(name), { ...flagOf(parameter), hidden: name !== parameter.name }]);
}

function flagOf(parameter: Parameter) {
  const isOptional = parameter.default === undefined ? "" : `; ${JSON.stringify(parameter.default)} when left out`;
  const brief = `${parameter.description || wantedOf(parameter)}${isOptional}`;
  if (parameter.kind === "boolean") return { kind: "boolean", optional: true, brief, withNegated: true };
  const placeholder = parameter.choices?.join("|") ?? parameter.kind;
  return {
    kind: "parsed",
    parse: String,
    optional: true,
    brief,
    placeholder,
    ...(parameter.kind === "list" ? { variadic: true } : {}),
  };
}

function positionalOf(parameter: Parameter) {
  const brief = parameter.description || wantedOf(parameter);
  return { brief, parse: String, optional: true, placeholder: parameter.name.replaceAll("_", "-") };
}

function text(brief: string) {
  return { kind: "parsed", parse: String, optional: true, brief };
}

function inputOf(
  parameters: readonly Parameter[],
  given: { readonly flags: Flags; readonly args: readonly unknown[]; readonly positional: readonly Parameter[] },
): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  for (const parameter of parameters) {
    for (const name of [parameter.name, ...parameter.aliases]) {
      const value = given.flags[camel(name)];
      if (value !== undefined) input[name] = readFlag(parameter, value);
    }
  }
  given.positional.forEach((parameter, index) => {
    const arg = given.args[index];
    if (arg === undefined) return;
    if (parameter.name in input) {
      throw new Failure("invalid_input", `Parameter ${parameter.name} was given twice: as an argument and as a flag`, {
        details: { parameter: parameter.name },
      });
    }
    input[parameter.name] = fromText(parameter, String(arg));
  });
  return input;
}

function readFlag(parameter: Parameter, value: unknown): unknown {
  if (Array.isArray(value)) {
    // `--keep ""` empties a list.
    return value.flatMap((item) => item === "" ? [] : fromText(parameter, String(item)));
  }
  return typeof value === "string" ? fromText(parameter, value) : value;
}

function extraCommand(extra: ExtraCommand): Command<CommandContext> {
  return buildCommand<Flags, readonly unknown[]>({
    docs: { brief: extra.brief, customUsage: ["[flags]"] },
    // As above: flags from data.
    parameters: {
      flags: Object.fromEntries(
        Object.entries(extra.flags).map(([flag, brief]) => [
          camel(flag.replaceAll("-", "_")),
          SWITCHES.includes(flag) ? { kind: "boolean", optional: true, brief, withNegated: false } : text(brief),
        ]),
      ),
      positional: { kind: "array", parameter: { brief: "", parse: String, placeholder: "args" } },
    } as never,
    func() {
      throw new TypeError(`Cannot run ${extra.words.join(" ")} here: it has an owner of its own`);
    },
  });
}
