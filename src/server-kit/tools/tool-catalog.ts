import type { Tool } from "@modelcontextprotocol/server";

import { anonymous, type Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";
import type { OperationName, TransportName } from "../entity/entity.ts";
import type { Records } from "../entity/records.ts";
import type { KitSettings } from "../settings/settings.ts";
import { accessibleEntities, authorizeTool, type Requester, stdioPrincipal } from "./executor.ts";
import { type KitTool, toToolEntry } from "./define-tool.ts";
import { createGenericTools, entityTools, type ExposedEntity, exposeEntity } from "./entity-tools.ts";
import type { ToolEntry } from "./tool-entry.ts";

/** One row of the capability document (KO-116). */
export interface CapabilityTool {
  readonly name: string;
  readonly description: string;
  /** After override, declaration and server setting, in this order. */
  readonly requireAuthentication: boolean;
  readonly requiredScopes: readonly string[];
  readonly enabledTransports: readonly TransportName[];
  /** The entity and operation it comes from; null for custom and generic tools. */
  readonly entity: string | null;
  readonly operation: string | null;
}

/** All tools under one set of settings, and what each caller sees of them. */
export interface ToolCatalog {
  readonly settings: KitSettings;
  readonly tools: ReadonlyMap<string, ToolEntry>;
  readonly entities: readonly ExposedEntity[];
  readonly warnings: readonly string[];
  /** The operation of an exposed entity, for REST; also there if the tools are generic. */
  operation(entity: string, operation: OperationName): ToolEntry | undefined;
  readonly stdioPrincipal: Principal;
  /** The tools enabled on a transport, in the order of declaration. */
  onTransport(transport: TransportName): readonly ToolEntry[];
  /** The result of tools/list; created once per set of visible tools and shared (KO-028). */
  list(requester: Requester): readonly Tool[];
  capabilityTools(principal: Principal): readonly CapabilityTool[];
  allowsAnonymous(): boolean;
}

const legalName = /^[\w-]{1,64}$/u;

/** Creates the catalog of entities and custom tools; throws if two tools have the same name (KO-008). */
export function createToolCatalog(
  records: readonly Records[],
  customTools: readonly KitTool[],
  settings: KitSettings,
): ToolCatalog {
  rejectDuplicateEntities(records);
  const warnings = findUnknownEntityNames(records, settings);
  if (settings.strict && warnings.length > 0) throw new GatewayError("config_invalid", warnings.join("; "));
  const entities = records
    .filter(({ entity }) => isAllowed(entity.name, settings))
    .map((one) => exposeEntity(one, settings));
  const own = entities.flatMap((exposed) => entityTools(exposed, settings));
  const byOperation = new Map(own.map((entry) => [`${entry.entity}/${entry.operation}`.toLowerCase(), entry]));
  const entries = settings.toolShape === "generic" ? createGenericTools(entities, settings) : own;
  const tools = indexByName([...entries, ...customTools.map((tool) => toToolEntry(tool, settings))]);
  if (settings.toolShape === "perEntity" && entities.length > 8) {
    warnings.push(`${entities.length} entities make ${tools.size} tools; toolShape "generic" shortens the list`);
  }
  const declared = [...tools.values()].flatMap(({ access, entityAccess }) => [
    ...access.requiredScopes,
    ...[...(entityAccess?.values() ?? [])].flatMap(({ requiredScopes }) => requiredScopes),
  ]);
  const lists = new Map<string, readonly Tool[]>();
  const httpTransports = enabledHttp(settings);
  const isShown = ({ principal, via }: Requester, entry: ToolEntry): boolean => {
    const { kind } = authorizeTool(entry, { principal, via }, settings);
    if (kind !== "refused") return kind === "allowed";
    // Logging in never shows less: in development anonymous callers see scoped tools too (KO-139).
    return settings.showAllTools || isOpenToAnonymous(entry, via);
  };
  const isOpenToAnonymous = (entry: ToolEntry, via: Requester["via"]): boolean =>
    authorizeTool(entry, { principal: anonymous, via }, settings).kind === "allowed";
  return {
    settings,
    tools,
    entities,
    warnings,
    stdioPrincipal: stdioPrincipal(settings, declared),
    operation: (entity, operation) => byOperation.get(`${entity}/${operation}`.toLowerCase()),
    onTransport: (transport) => [...tools.values()].filter((entry) => isEnabledOn(entry, transport)),
    list: (requester) => {
      const shown = [...tools.values()].filter((entry) => isShown(requester, entry));
      const reached = shown.map((entry) => shownEntities(entry, requester));
      const key = shown.map(({ name }, index) => `${name}:${(reached[index] ?? []).join("+")}`).join(" ");
      const known = lists.get(key);
      if (known !== undefined) return known;
      const made = shown.map((entry, index) => toDefinition(entry, reached[index] ?? []));
      lists.set(key, made);
      return made;
    },
    capabilityTools: (principal) =>
      [...tools.values()]
        .filter((entry) => httpTransports.some((via) => isShown({ principal, via }, entry)))
        .map(toCapability),
    allowsAnonymous: () =>
      [...tools.values()].some((entry) => httpTransports.some((via) => isOpenToAnonymous(entry, via))),
  };

  function shownEntities(entry: ToolEntry, requester: Requester): readonly string[] {
    if (entry.entityAccess === undefined) return [];
    if (settings.showAllTools) return [...entry.entityAccess.keys()];
    const open = accessibleEntities(entry, { ...requester, principal: anonymous }, settings);
    const usable = accessibleEntities(entry, requester, settings);
    return [...entry.entityAccess.keys()].filter((name) => usable.includes(name) || open.includes(name));
  }
}

/** The enabled HTTP transports. */
function enabledHttp(settings: KitSettings): readonly TransportName[] {
  return [
    ...(settings.enableHttpSseTransport ? (["http-sse"] as const) : []),
    ...(settings.enableStreamableHttp ? (["streamable-http"] as const) : []),
  ];
}

function isEnabledOn({ access, entityAccess }: ToolEntry, transport: TransportName): boolean {
  const all = entityAccess === undefined ? [access] : [...entityAccess.values()];
  return all.some(({ enabledTransports }) => enabledTransports.includes(transport));
}

function toDefinition(entry: ToolEntry, entities: readonly string[]): Tool {
  const inputSchema = entry.inputSchemaFor?.(entities) ?? entry.inputSchema;
  return {
    name: entry.name,
    title: entry.title,
    description: entry.description,
    // Every input schema of the kit describes an object.
    inputSchema: inputSchema as Tool["inputSchema"],
    ...(entry.outputSchema === undefined ? {} : { outputSchema: entry.outputSchema }),
    annotations: entry.annotations,
  };
}

function toCapability(entry: ToolEntry): CapabilityTool {
  const { access, entityAccess } = entry;
  const all = entityAccess === undefined ? [access] : [...entityAccess.values()];
  return {
    name: entry.name,
    description: entry.description,
    requireAuthentication: all.every(({ requireAuthentication }) => requireAuthentication),
    requiredScopes: access.requiredScopes,
    enabledTransports: access.enabledTransports,
    entity: entry.entity ?? null,
    operation: entry.operation ?? null,
  };
}

function indexByName(entries: readonly ToolEntry[]): ReadonlyMap<string, ToolEntry> {
  const tools = new Map<string, ToolEntry>();
  for (const entry of entries) {
    if (!legalName.test(entry.name)) {
      throw new GatewayError(
        "config_invalid",
        `${entry.declaredBy}: ${entry.name} is not a valid tool name: at most 64 letters, digits, _ and -`,
      );
    }
    const other = tools.get(entry.name);
    if (other !== undefined) {
      throw new GatewayError(
        "config_invalid",
        `${entry.declaredBy} and ${other.declaredBy} are both named ${entry.name}; give one a toolPrefix or another name`,
      );
    }
    tools.set(entry.name, entry);
  }
  return tools;
}

function rejectDuplicateEntities(records: readonly Records[]): void {
  const seen = new Map<string, string>();
  for (const { entity } of records) {
    const other = seen.get(entity.name.toLowerCase());
    if (other !== undefined) {
      throw new GatewayError(
        "config_invalid",
        `the entities ${other} and ${entity.name} have the same name; entity names are case-insensitive`,
      );
    }
    seen.set(entity.name.toLowerCase(), entity.name);
  }
}

function isAllowed(name: string, { allowedEntities, deniedEntities }: KitSettings): boolean {
  const has = (names: readonly string[]): boolean => names.some((other) => other.toLowerCase() === name.toLowerCase());
  return !has(deniedEntities) && (allowedEntities.length === 0 || has(allowedEntities));
}

function findUnknownEntityNames(records: readonly Records[], settings: KitSettings): string[] {
  const known = new Set(records.map(({ entity }) => entity.name.toLowerCase()));
  const lists = {
    allowedEntities: settings.allowedEntities,
    deniedEntities: settings.deniedEntities,
    entityOverrides: Object.keys(settings.entityOverrides),
  };
  return Object.entries(lists).flatMap(([setting, names]) =>
    names.filter((name) => !known.has(name.toLowerCase())).map((name) => `${setting} names the unknown entity ${name}`),
  );
}
