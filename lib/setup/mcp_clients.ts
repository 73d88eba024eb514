/**
 * `hyperswap mcp install` and `uninstall`: HyperSwap's entry in the configuration of programs that start MCP servers
 * themselves. Other entries stay byte for byte; a file that can't be read as JSON isn't touched.
 */
import { Failure, messageOf } from "../model/failure.ts";
import type { Program } from "./program.ts";
import { removeMember, setMember } from "./json_edit.ts";
import { replaceFile } from "./replace_file.ts";

interface Client {
  readonly name: string;
  readonly title: string;
  /** Below the home folder. */
  readonly file: string;
  /** Where its servers stand in that file. */
  readonly key: string;
  /** What it wants beside command and arguments. */
  readonly more: Readonly<Record<string, string>>;
}

const CLIENTS: readonly Client[] = [
  {
    name: "claude-desktop",
    title: "Claude Desktop",
    file: ".config/Claude/claude_desktop_config.json",
    key: "mcpServers",
    more: {},
  },
  { name: "cursor", title: "Cursor", file: ".cursor/mcp.json", key: "mcpServers", more: {} },
  {
    name: "antigravity",
    title: "Antigravity",
    file: ".gemini/antigravity-cli/mcp_config.json",
    key: "mcpServers",
    more: {},
  },
  { name: "vscode", title: "VS Code", file: ".config/Code/User/mcp.json", key: "servers", more: { type: "stdio" } },
];

const NAME = "hyperswap";
/** What the file was before HyperSwap first changed it. */
const BACKUP = ".before-hyperswap";

export interface McpClientsOptions {
  readonly home: string;
  /** How this very program is started. */
  readonly program: Program;
  /** One of the clients; null: every one whose folder is there. */
  readonly client: string | null;
  /** True: nothing is written. */
  readonly isPrint: boolean;
}

export interface ClientChange {
  readonly client: string;
  readonly title: string;
  readonly file: string;
  readonly action: "added" | "updated" | "removed" | "unchanged" | "would add" | "would update" | "would remove";
  /** The entry, or the file's text after the change where nothing is written. */
  readonly entry: Readonly<Record<string, unknown>> | null;
}

/** Adds or renews the entry. */
export function installMcp(options: McpClientsOptions): readonly ClientChange[] {
  const { path, args } = options.program;
  const changes = chosen(options).map((client) => {
    const entry = { ...client.more, command: path, args: [...args, "mcp"] };
    return plan(client, { ...options, edit: (text) => setMember(text, [client.key, NAME], entry), entry });
  });
  return changes.map(carryOut);
}

/** Takes it out again; a file that holds nothing else goes with it, if HyperSwap made it. */
export function uninstallMcp(options: McpClientsOptions): readonly ClientChange[] {
  const changes = chosen(options).map((client) =>
    plan(client, { ...options, edit: (text) => removeMember(text, [client.key, NAME]), entry: null })
  );
  return changes.map(carryOut);
}

function chosen({ home, client }: McpClientsOptions): readonly Client[] {
  if (client !== null) {
    const found = CLIENTS.find(({ name }) => name === client);
    if (found !== undefined) return [found];
    throw new Failure("not_found", `Cannot find an MCP client named "${client}"`, {
      hint: `It is one of ${CLIENTS.map(({ name }) => name).join(", ")}; others take the same entry by hand`,
    });
  }
  const installed = CLIENTS.filter(({ file }) => isFolder(parentOf(`${home}/${file}`)));
  if (installed.length > 0) return installed;
  throw new Failure("not_found", "Cannot find an MCP client on this machine", {
    hint: `Name one with --client: ${CLIENTS.map(({ name }) => name).join(", ")}`,
  });
}

interface Change extends McpClientsOptions {
  readonly edit: (text: string) => string;
  readonly entry: Readonly<Record<string, unknown>> | null;
}

/** What is to be told, and what writes it; null where nothing is to be written. */
interface Plan {
  readonly change: ClientChange;
  readonly write: (() => void) | null;
}

/** Every file is read and edited before the first is written: one that can't be leaves all of them as they are. */
function plan(client: Client, change: Change): Plan {
  const file = `${change.home}/${client.file}`;
  const told = { client: client.name, title: client.title, file, entry: change.entry };
  try {
    return planned(client, { ...change, told });
  } catch (error) {
    // What would be added is wanted most where the file can't be edited for its owner.
    const isShown = change.isPrint && change.entry !== null;
    if (!isShown || !(error instanceof Failure) || error.code !== "invalid_input") throw error;
    return { change: { ...told, action: "would add" }, write: null };
  }
}

function planned(
  { key }: Client,
  { isPrint, edit, entry, told }: Change & { readonly told: Omit<ClientChange, "action"> },
): Plan {
  const before = readText(told.file);
  const after = edited(told, before ?? "{}\n", edit);
  const had = before !== null && hasEntry(before, key);
  if (before === null ? entry === null : after === before) {
    return { change: { ...told, action: "unchanged" }, write: null };
  }
  const verb = entry === null ? "remove" : had ? "update" : "add";
  if (isPrint) return { change: { ...told, action: `would ${verb}` }, write: null };
  const action = verb === "remove" ? "removed" : verb === "add" ? "added" : "updated";
  const isOurs = entry === null && isEmpty(after, key);
  return { change: { ...told, action }, write: () => write(told.file, { before, after, isOurs }) };
}

function edited({ client, file }: Pick<ClientChange, "client" | "file">, text: string, edit: (text: string) => string) {
  try {
    return edit(text.trim() === "" ? "{}\n" : text);
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw error;
    throw new Failure("invalid_input", `Cannot change ${file}: it is not plain JSON (${messageOf(error)})`, {
      hint: `Mend it, or add the entry by hand: hyperswap mcp install --client ${client} --print shows it`,
      cause: error,
    });
  }
}

function carryOut({ change, write }: Plan): ClientChange {
  write?.();
  return change;
}

function write(
  file: string,
  { before, after, isOurs }: { readonly before: string | null; readonly after: string; readonly isOurs: boolean },
): void {
  try {
    // A backup means that somebody else's file was there first.
    const isMade = readText(file + BACKUP) === null;
    if (isOurs && isMade) return Deno.removeSync(file);
    Deno.mkdirSync(parentOf(file), { recursive: true });
    if (before !== null && isMade && !isOurs) replaceFile(file + BACKUP, before, { mode: 0o600 });
    replaceFile(file, after, { mode: 0o600 });
  } catch (error) {
    if (error instanceof Failure) throw error;
    throw new Failure("unavailable", `Cannot write ${file}: ${messageOf(error)}`, { cause: error });
  }
}

function hasEntry(text: string, key: string): boolean {
  return serversIn(text, key)?.[NAME] !== undefined;
}

function isEmpty(text: string, key: string): boolean {
  const servers = serversIn(text, key);
  return Object.keys(JSON.parse(text)).length === 1 && servers !== null && Object.keys(servers).length === 0;
}

function serversIn(text: string, key: string): Readonly<Record<string, unknown>> | null {
  if (text.trim() === "") return null;
  const servers: unknown = Reflect.get(JSON.parse(text), key);
  // Narrowed to a JSON object, whose keys are strings.
  return typeof servers === "object" && servers !== null ? servers as Readonly<Record<string, unknown>> : null;
}

function readText(path: string): string | null {
  try {
    // Letters of another encoding would be written back as others; a mark of the byte order stays.
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(Deno.readFileSync(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    if (error instanceof TypeError) {
      throw new Failure("invalid_input", `Cannot change ${path}: it is not UTF-8`, {
        hint: "Save it as UTF-8, or add the entry by hand: hyperswap mcp install --print shows it",
        cause: error,
      });
    }
    throw new Failure("unavailable", `Cannot read ${path}: ${messageOf(error)}`, { cause: error });
  }
}

function isFolder(path: string): boolean {
  try {
    return Deno.statSync(path).isDirectory;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.PermissionDenied) return false;
    throw error;
  }
}

function parentOf(path: string): string {
  return path.slice(0, path.lastIndexOf("/"));
}
