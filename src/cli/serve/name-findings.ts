import { readFileSync } from "node:fs";

import type { Config, FederationConfig, RouteConfig } from "../../config/config.ts";
import type { ConfigFinding } from "../../config/issues.ts";
import { AdvertisedNames, type NamedKind } from "../../federation/names/advertised-names.ts";
import { isObject } from "../../lib/is-object.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import { type ApprovedDefinition, type DefinitionLock, lockedServer, parseLock } from "../../recorder/drift/compare.ts";
import { gapsOf, type ListNotes } from "../client/lists.ts";
import { printableLine } from "../text-layout.ts";
import type { Finding } from "./network-probe.ts";
import { routePath } from "./preflight.ts";

/** A tool as the servers behind a route list it together, without overrides. */
interface OfferedTool {
  readonly name: string;
  readonly inputSchema?: unknown;
}

/** What the servers behind a route offer together, without overrides. */
export interface Offered {
  readonly tools: readonly OfferedTool[];
  readonly prompts: readonly string[];
  /** What the lists say about themselves. */
  readonly notes: ListNotes;
}

/** Names in the configuration of several servers that match nothing, or that another tool has: most likely mistakes. */
export function findUnusedNames(config: FederationConfig, offered: Offered): readonly Finding[] {
  const isCertain = createCertainty(config, offered);
  return [
    ...overridesWithoutTool(config, offered),
    ...overridesOfTakenNames(config, offered),
    ...patternsWithoutTool(config, offered),
    ...emptyViews(config, offered),
  ]
    .filter(({ name }) => isCertain(name))
    .map(({ text, remedy }) => ({ outcome: "warning", text: printableLine(text), remedy: printableLine(remedy) }));
}

interface UnusedName {
  /** As clients would see it. */
  readonly name: string;
  readonly text: string;
  readonly remedy: string;
}

/** A name may be one of a server whose list is missing. */
function createCertainty({ members, separator }: FederationConfig, { notes }: Offered): (name: string) => boolean {
  const missing = notes.degraded.map(({ upstream }) => upstream);
  const beginnings = members
    .filter(({ name }) => missing.includes(name))
    .map(({ prefix }) => (prefix === "" ? "" : `${prefix}${separator}`));
  return (name) => {
    const [literal = ""] = name.split("*");
    return !beginnings.some(
      (beginning) => literal.startsWith(beginning) || (name.includes("*") && beginning.startsWith(literal)),
    );
  };
}

function overridesWithoutTool({ overrides }: FederationConfig, { tools }: Offered): readonly UnusedName[] {
  return Object.entries(overrides.tools).flatMap(([name, { arguments: list }]) => {
    const tool = tools.find((one) => one.name === name);
    if (tool === undefined) {
      const remedy = "write the name that clients would see without the override";
      return [{ name, text: `overrides.tools: no server offers \`${name}\``, remedy }];
    }
    const schema = isObject(tool.inputSchema) ? tool.inputSchema : {};
    const properties = schema["properties"];
    const known = isObject(properties) ? Object.keys(properties) : [];
    return Object.keys(list)
      .filter((argument) => !known.includes(argument))
      .map((argument) => ({
        name,
        text: `overrides.tools.${name}.arguments: the tool has no argument \`${argument}\``,
        remedy: known.length === 0 ? "it has none" : `it has ${known.map((one) => `\`${one}\``).join(", ")}`,
      }));
  });
}

/** New names that other tools have already: those tools are not offered. */
function overridesOfTakenNames({ overrides }: FederationConfig, { tools }: Offered): readonly UnusedName[] {
  return Object.entries(overrides.tools).flatMap(([tool, { name }]) => {
    if (name === undefined || name === tool || !tools.some((one) => one.name === name)) return [];
    const other = overrides.tools[name];
    if (other?.hide === true || (other?.name !== undefined && other.name !== name)) return [];
    const text = `overrides.tools.${tool}.name: another tool is called \`${name}\`, which is therefore not offered`;
    return [{ name, text, remedy: "choose another name, or hide or rename the other tool" }];
  });
}

/** `tools.allow` of each server, which has the server's own names. */
function patternsWithoutTool(
  { members, separator }: FederationConfig,
  { tools, notes: { cut } }: Offered,
): readonly UnusedName[] {
  const ownNames = tools.map(({ name }) => ({ name, own: cut[name] }));
  return members.flatMap(({ name: member, prefix, allowedTools = [] }) => {
    const beginning = prefix === "" ? "" : `${prefix}${separator}`;
    const own = ownNames
      .filter(({ name }) => name.startsWith(beginning))
      .map((one) => one.own ?? one.name.slice(beginning.length));
    return allowedTools
      .filter((pattern) => !own.some(createGlobTest([pattern])))
      .map((pattern) => ({
        name: `${beginning}${pattern}`,
        text: `upstreams.${member}.tools.allow: the server has no tool \`${pattern}\``,
        remedy: "write the name that the server itself uses",
      }));
  });
}

/**
 * Views show names as clients see them, with overrides. Resources are not checked: servers need not list all of them.
 */
function emptyViews({ views, overrides }: FederationConfig, { tools, prompts }: Offered): readonly UnusedName[] {
  const shown = tools.flatMap(({ name }) => {
    const override = overrides.tools[name];
    return override?.hide === true ? [] : [override?.name ?? name];
  });
  const lists = { tools: shown, prompts };
  return views.flatMap((view) =>
    (["tools", "prompts"] as const).flatMap((kind) =>
      view[kind]
        .filter((pattern) => !lists[kind].some(createGlobTest([pattern])))
        .map((pattern) => ({
          name: pattern,
          text: `views.${view.name}.${kind}: no server offers \`${pattern}\``,
          remedy: "write the name that clients see",
        })),
    ),
  );
}

/** Names of several servers that clash, are cut or fit nothing, as far as the lock file has their definitions. */
export function lockedNameWarnings({ drift, routes }: Config): readonly ConfigFinding[] {
  if (drift === undefined) return [];
  // The preflight checks have ensured that it can be read.
  const lock = parseLock(readFileSync(drift.lock, "utf8"), drift.lock);
  return Object.values(routes).flatMap((route) => {
    const { upstream } = route;
    if (upstream.type !== "federation" || upstream.view !== undefined) return [];
    const { tools, prompts, notes } = listFromLock(route, upstream, lock);
    // What the lock lacks are servers that nobody has approved yet, which `headgate drift` is about.
    const warnings = [
      ...gapsOf({ ...notes, degraded: [] }),
      ...findUnusedNames(upstream, { tools, prompts, notes }).map(({ text, remedy = "" }) => `${text}; ${remedy}`),
    ];
    return warnings.map((message) => ({ path: routePath(route), message }));
  });
}

/** What servers offer together, without overrides, if they offer what the lock has of them. */
function listFromLock({ name: route }: RouteConfig, config: FederationConfig, lock: DefinitionLock) {
  const names = new AdvertisedNames({ ...config, overrides: undefined });
  const known = config.members.flatMap((member) => {
    const definitions = lock.routes[lockedServer(route, member.name)];
    return definitions === undefined ? [] : [{ member, definitions }];
  });
  const cut: Record<string, string> = {};
  const clashes = new Set<string>();
  const listed = (kind: NamedKind): readonly OfferedTool[] => {
    const own = known.map(({ member, definitions }) => ({ member, entries: entriesOf(kind, definitions) }));
    for (const { member, entries } of own)
      names.learn(
        member,
        kind,
        entries.map(({ name }) => name),
      );
    const offered = own.flatMap(({ member, entries }) =>
      entries.flatMap(({ name, inputSchema }) => {
        const advertised = names.advertise(member, kind, name);
        return advertised === undefined ? [] : [{ name: advertised, own: name, inputSchema }];
      }),
    );
    return offered.filter(({ name, own: ownName }) => {
      if (names.isClash(kind, name)) clashes.add(name);
      else if (!name.endsWith(ownName)) cut[name] = ownName;
      return !clashes.has(name);
    });
  };
  const tools = listed("tool");
  const prompts = listed("prompt").map(({ name }) => name);
  const missing = config.members.filter((member) => !known.some((one) => one.member === member));
  const degraded = missing.map(({ name }) => ({ upstream: name }));
  return { tools, prompts, notes: { degraded, clashes: [...clashes], cut } satisfies ListNotes };
}

function entriesOf(kind: NamedKind, definitions: Readonly<Record<string, ApprovedDefinition>>): readonly OfferedTool[] {
  const prefix = `${kind} `;
  return Object.entries(definitions).flatMap(([key, { fields }]) =>
    key.startsWith(prefix) ? [{ name: key.slice(prefix.length), inputSchema: fields["inputSchema"] }] : [],
  );
}
