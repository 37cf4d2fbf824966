import { ProtocolError } from "@modelcontextprotocol/server";

import { isObject } from "../../lib/is-object.ts";
import { refuseAnonymous, type Requester } from "../tools/executor.ts";
import type { ToolRefusal } from "../tools/tool-entry.ts";

/** What the `extend` hook registers for callers without a login. A `*` at the end stands for the rest of a name. */
export interface AnonymousNames {
  readonly tools?: readonly string[];
  readonly prompts?: readonly string[];
  /** URIs, and URI templates as they were registered. */
  readonly resources?: readonly string[];
}

/**
 * Who may use what the `extend` hook registers with the SDK. Where the server requires authentication, an anonymous
 * caller (admitted by an entity or tool that does not) gets only what the hook opened by name.
 */
export type ExtensionAccess = ReturnType<typeof createExtensionAccess>;

type Kind = keyof AnonymousNames;

/** The lists, with the kind of their entries and the member that names one. */
const lists: Readonly<Record<string, { readonly member: string; readonly kind: Kind; readonly name: string }>> = {
  "tools/list": { member: "tools", kind: "tools", name: "name" },
  "prompts/list": { member: "prompts", kind: "prompts", name: "name" },
  "resources/list": { member: "resources", kind: "resources", name: "uri" },
  "resources/templates/list": { member: "resourceTemplates", kind: "resources", name: "uriTemplate" },
};

/** Requests that tell nothing about what the hook registered, and lists, which `filter` shortens. */
const openMethods = new Set(["initialize", "ping", "server/discover", "logging/setLevel", ...Object.keys(lists)]);

/** Creates the access rules of a kit; `requiresLogin` is read at each request. */
export function createExtensionAccess(requiresLogin: () => boolean) {
  const open: Readonly<Record<Kind, Set<string>>> = { tools: new Set(), prompts: new Set(), resources: new Set() };
  const isOpen = (kind: Kind, name: unknown): boolean =>
    typeof name === "string" &&
    (open[kind].has(name) ||
      [...open[kind]].some((pattern) => pattern.endsWith("*") && name.startsWith(pattern.slice(0, -1))));
  const isRestricted = ({ principal }: Requester): boolean => principal.kind === "anonymous" && requiresLogin();

  return {
    allowAnonymous: (names: AnonymousNames): void => {
      for (const kind of ["tools", "prompts", "resources"] as const) {
        for (const name of names[kind] ?? []) open[kind].add(name);
      }
    },
    /** Whether anything is open to anonymous callers. */
    get opensAny(): boolean {
      return Object.values(open).some(({ size }) => size > 0);
    },
    /** Whether anonymous callers may call a tool of the hook. */
    isOpenTool: (name: string): boolean => !requiresLogin() || isOpen("tools", name),
    /** Why a caller may not send a request that the kit's own catalog does not answer. */
    check: (request: unknown, caller: Requester): ToolRefusal | undefined => {
      if (!isRestricted(caller) || !isObject(request) || openMethods.has(String(request["method"]))) return undefined;
      const wanted = wantedNames(String(request["method"]), request["params"]);
      const isAllowed = wanted !== undefined && wanted.names.every((name) => isOpen(wanted.kind, name));
      return isAllowed ? undefined : refuseAnonymous("log in to use this");
    },
    /** The result of a request without what the caller may not use. */
    filter: (method: string, result: unknown, caller: Requester): unknown => {
      const list = lists[method];
      if (list === undefined || !isRestricted(caller) || !isObject(result)) return result;
      const entries = result[list.member];
      if (!Array.isArray(entries)) return result;
      return {
        ...result,
        [list.member]: entries.filter((entry) => isObject(entry) && isOpen(list.kind, entry[list.name])),
      };
    },
  };
}

/** What a request names; undefined for a method whose names are not known here. */
function wantedNames(
  method: string,
  params: unknown,
): { readonly kind: Kind; readonly names: readonly unknown[] } | undefined {
  const given = isObject(params) ? params : {};
  switch (method) {
    case "tools/call":
      return { kind: "tools", names: [given["name"]] };
    case "prompts/get":
      return { kind: "prompts", names: [given["name"]] };
    case "resources/read":
    case "resources/subscribe":
    case "resources/unsubscribe":
      return { kind: "resources", names: [given["uri"]] };
    case "completion/complete": {
      const ref = isObject(given["ref"]) ? given["ref"] : {};
      return ref["type"] === "ref/prompt"
        ? { kind: "prompts", names: [ref["name"]] }
        : { kind: "resources", names: [ref["uri"]] };
    }
    case "subscriptions/listen": {
      const notifications = isObject(given["notifications"]) ? given["notifications"] : {};
      const uris = notifications["resourceSubscriptions"] ?? [];
      return { kind: "resources", names: Array.isArray(uris) ? uris : [uris] };
    }
    default:
      return undefined;
  }
}

/** Throws a refusal as the JSON-RPC error that the caller gets (KO-098). */
export function throwRefusal({ code, message, reason, requiredScopes }: ToolRefusal): never {
  throw new ProtocolError(code, message, { reason, requiredScopes });
}
