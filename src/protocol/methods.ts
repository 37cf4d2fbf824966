import { isObject } from "../lib/is-object.ts";
import type { Direction } from "./message.ts";
import { foldName } from "./json/folded-names.ts";
import { type Revision, revisionNames, revisions } from "./revisions.ts";

/** Whether a method is a request or a notification. */
export type MethodKind = "request" | "notification";

/** How a revision has a method: as a message, only inside `inputRequests`, only with an extension, or not at all. */
export type MethodForm = "core" | "embedded" | "extension" | "absent";

/** How long a response may take: a lookup, a tool, a person, or as long as the stream lives. */
export type TimeoutClass = "quick" | "tool" | "human" | "stream";

/** The member that `Mcp-Name` mirrors. */
export type NameSource = "params.name" | "params.uri" | "params.taskId";

/** Who may send a method. */
export type MethodDirection = "client-to-server" | "server-to-client" | "both";

/** What is known about a method in all revisions. */
export interface MethodFacts {
  readonly name: string;
  readonly kind: MethodKind;
  readonly forms: Readonly<Record<Revision, MethodForm>>;
  readonly directions: Readonly<Record<Revision, MethodDirection>>;
  /** What the request is about, for routing and policy. */
  readonly target?: "tool" | "prompt" | "resource" | "task";
  /** The member that `Mcp-Name` mirrors, if the method has that header (MCP 2026-07-28, Streamable HTTP; Tasks extension). */
  readonly nameSource?: NameSource;
  /** Whether the result has cache hints, in revisions that have them. */
  readonly cacheable: boolean;
  /** Whether the result may ask for input, in revisions with multi round-trip requests. */
  readonly inputRequired: boolean;
  /** Whether revisions with `subscriptions/listen` send the notification only on such streams. */
  readonly listenOnly: boolean;
  readonly timeoutClass: TimeoutClass;
  /** The capability that a receiver of the request declares. */
  readonly capability?: string;
  /** The extension that defines the method, if its form is `extension`. */
  readonly extension?: string;
}

/** Whether a revision has a method as it was used; `known` covers core and extension methods. */
export type MethodStatus = "known" | "unknown" | "wrong-direction" | "wrong-kind";

type MethodTraits = Partial<Omit<MethodFacts, "name" | "kind" | "forms" | "directions">> & {
  /** The direction in modern revisions, if it differs from legacy ones. */
  readonly modernDirection?: MethodDirection;
};

const up = "client-to-server";
const down = "server-to-client";
/** The extension that defines tasks in modern revisions. */
export const tasksExtension = "io.modelcontextprotocol/tasks";

/** One column for each revision, oldest first: x core, e embedded in results, t Tasks extension, - absent. */
const table: readonly MethodFacts[] = [
  request("initialize", up, "xxxx-"),
  request("ping", "both", "xxxx-"),
  request("server/discover", up, "----x", { cacheable: true }),
  request("tools/list", up, "xxxxx", { cacheable: true, capability: "tools" }),
  request("tools/call", up, "xxxxx", {
    target: "tool",
    nameSource: "params.name",
    inputRequired: true,
    timeoutClass: "tool",
    capability: "tools",
  }),
  request("prompts/list", up, "xxxxx", { cacheable: true, capability: "prompts" }),
  request("prompts/get", up, "xxxxx", {
    target: "prompt",
    nameSource: "params.name",
    inputRequired: true,
    timeoutClass: "tool",
    capability: "prompts",
  }),
  request("resources/list", up, "xxxxx", { cacheable: true, capability: "resources" }),
  request("resources/templates/list", up, "xxxxx", { cacheable: true, capability: "resources" }),
  request("resources/read", up, "xxxxx", {
    target: "resource",
    nameSource: "params.uri",
    cacheable: true,
    inputRequired: true,
    timeoutClass: "tool",
    capability: "resources",
  }),
  request("resources/subscribe", up, "xxxx-", { target: "resource", capability: "resources" }),
  request("resources/unsubscribe", up, "xxxx-", { target: "resource", capability: "resources" }),
  request("completion/complete", up, "xxxxx", { capability: "completions" }),
  request("logging/setLevel", up, "xxxx-", { capability: "logging" }),
  request("subscriptions/listen", up, "----x", { timeoutClass: "stream" }),
  request("roots/list", down, "xxxxe", { capability: "roots" }),
  request("sampling/createMessage", down, "xxxxe", { timeoutClass: "human", capability: "sampling" }),
  request("elicitation/create", down, "--xxe", { timeoutClass: "human", capability: "elicitation" }),
  request("tasks/get", "both", "---xt", { ...taskTraits("quick"), modernDirection: up }),
  request("tasks/cancel", "both", "---xt", { ...taskTraits("quick"), modernDirection: up }),
  request("tasks/update", up, "----t", taskTraits("quick")),
  // Waits for the end of the task, which may need input of a person (MCP 2025-11-25, Tasks).
  request("tasks/result", "both", "---x-", { target: "task", timeoutClass: "human", capability: "tasks" }),
  request("tasks/list", "both", "---x-", { capability: "tasks" }),
  notification("notifications/initialized", up, "xxxx-"),
  notification("notifications/cancelled", "both", "xxxxx"),
  notification("notifications/progress", "both", "xxxxx", { modernDirection: down }),
  notification("notifications/message", down, "xxxxx"),
  notification("notifications/roots/list_changed", up, "xxxx-"),
  notification("notifications/tools/list_changed", down, "xxxxx", { listenOnly: true }),
  notification("notifications/prompts/list_changed", down, "xxxxx", { listenOnly: true }),
  notification("notifications/resources/list_changed", down, "xxxxx", { listenOnly: true }),
  notification("notifications/resources/updated", down, "xxxxx", { target: "resource", listenOnly: true }),
  notification("notifications/elicitation/complete", down, "---x-"),
  notification("notifications/tasks/status", "both", "---x-", { target: "task" }),
  notification("notifications/tasks", down, "----t", { target: "task", listenOnly: true, extension: tasksExtension }),
  notification("notifications/subscriptions/acknowledged", down, "----x", { listenOnly: true }),
];

const byName: ReadonlyMap<string, MethodFacts> = new Map(table.map((facts) => [facts.name, facts]));

/** Every method of any revision. */
export const methodNames: readonly string[] = table.map((facts) => facts.name);

const requestNames: ReadonlySet<string> = new Set(
  table.filter(({ kind }) => kind === "request").map(({ name }) => foldName(name)),
);
const notificationPrefix = "notifications/";

/** Whether a message is a notification by its name, of MCP or of an extension, and by having no id. */
export function isNotification(kind: string, method: string): boolean {
  return kind === "notification" && method.startsWith(notificationPrefix);
}

/**
 * Whether a method has an id although it is the name of a notification, or none although it is one of a request, in
 * any letter case. Lenient servers run such a message by its name, where others go by its id.
 */
export function hasWrongKind(kind: string, method: string): boolean {
  const facts = byName.get(method);
  if (facts !== undefined) return facts.kind !== kind && (kind === "request" || kind === "notification");
  if (kind === "request") return foldName(method.slice(0, notificationPrefix.length)) === "NOTIFICATIONS/";
  return kind === "notification" && requestNames.has(foldName(method));
}

const namespaceOf = (name: string): string => foldName(name).split("/", 1)[0] ?? "";
const ownNamespaces: ReadonlySet<string> = new Set(
  table.filter(({ kind }) => kind === "request").map(({ name }) => namespaceOf(name)),
);

/** Whether MCP itself names methods like this one, as `tools/…`; extensions use namespaces of their own. */
export function isInOwnNamespace(method: string): boolean {
  return ownNamespaces.has(namespaceOf(method));
}

/** What is known about a method; undefined if no revision has it. */
export function methodFacts(name: string): MethodFacts | undefined {
  return byName.get(name);
}

/**
 * Whether a revision has a method in this direction and as this kind. Methods that only travel inside results are
 * unknown as messages; an internal or unknown direction is not checked.
 */
export function methodStatus(name: string, revision: Revision, direction: Direction, kind: MethodKind): MethodStatus {
  const facts = byName.get(name);
  if (facts === undefined) return "unknown";
  const form = facts.forms[revision];
  if (form !== "core" && form !== "extension") return "unknown";
  if (facts.kind !== kind) return "wrong-kind";
  const allowed = facts.directions[revision];
  const isJudged = direction === "client-to-server" || direction === "server-to-client";
  return allowed === "both" || !isJudged || allowed === direction ? "known" : "wrong-direction";
}

function taskTraits(timeoutClass: TimeoutClass): MethodTraits {
  return { target: "task", nameSource: "params.taskId", timeoutClass, capability: "tasks", extension: tasksExtension };
}

function request(name: string, direction: MethodDirection, columns: string, traits: MethodTraits = {}): MethodFacts {
  return row(name, "request", direction, columns, traits);
}

function notification(
  name: string,
  direction: MethodDirection,
  columns: string,
  traits: MethodTraits = {},
): MethodFacts {
  return row(name, "notification", direction, columns, traits);
}

function row(
  name: string,
  kind: MethodKind,
  direction: MethodDirection,
  columns: string,
  { modernDirection = direction, ...traits }: MethodTraits,
): MethodFacts {
  return {
    name,
    kind,
    forms: perRevision((index) => formOf(columns.charAt(index))),
    directions: perRevision((_, revision) => (revisions[revision].era === "modern" ? modernDirection : direction)),
    cacheable: false,
    inputRequired: false,
    listenOnly: false,
    timeoutClass: "quick",
    ...traits,
  };
}

function perRevision<Value>(valueAt: (index: number, name: Revision) => Value): Readonly<Record<Revision, Value>> {
  // Every revision has an entry.
  return Object.fromEntries(revisionNames.map((name, index) => [name, valueAt(index, name)])) as Record<
    Revision,
    Value
  >;
}

function formOf(column: string): MethodForm {
  if (column === "x") return "core";
  if (column === "e") return "embedded";
  return column === "t" ? "extension" : "absent";
}

/** Capabilities as a peer declares them: an object of details for each. */
export type Capabilities = Readonly<Record<string, unknown>>;

/**
 * The required capabilities that were not declared, in the form of error -32021; undefined if none is missing. A bare
 * `elicitation: {}` means forms, as before there were modes (MCP 2025-11-25, Elicitation).
 */
export function missingCapabilities(required: Capabilities, declared: Capabilities): Capabilities | undefined {
  const missing = Object.entries(required).flatMap(([name, wanted]) => {
    const given = Object.hasOwn(declared, name) ? declared[name] : undefined;
    if (!isObject(given)) return [[name, wanted]];
    const details = isObject(wanted) ? Object.entries(wanted) : [];
    const lacking = details.filter(([detail]) => !hasDetail(name, given, detail));
    return lacking.length === 0 ? [] : [[name, Object.fromEntries(lacking)]];
  });
  return missing.length === 0 ? undefined : (Object.fromEntries(missing) as Capabilities);
}

/** The capabilities that a client must declare to receive a request (MCP 2026-07-28, Multi Round-Trip Requests). */
export function requiredClientCapabilities(method: string, params: unknown): Capabilities | undefined {
  const has = (name: string): boolean => isObject(params) && Object.hasOwn(params, name);
  if (method === "roots/list") return { roots: {} };
  if (method === "sampling/createMessage") {
    return has("tools") || has("toolChoice") ? { sampling: { tools: {} } } : { sampling: {} };
  }
  if (method !== "elicitation/create") return undefined;
  return isObject(params) && params["mode"] === "url" ? { elicitation: { url: {} } } : { elicitation: { form: {} } };
}

function hasDetail(name: string, given: Capabilities, detail: string): boolean {
  if (Object.hasOwn(given, detail)) return true;
  return name === "elicitation" && detail === "form" && Object.keys(given).length === 0;
}
