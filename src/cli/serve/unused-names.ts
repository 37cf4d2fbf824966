import type { FederationConfig } from "../../config/config.ts";
import { isObject } from "../../lib/is-object.ts";
import { createGlobTest } from "../../lib/text/glob.ts";
import { printableLine } from "../text-layout.ts";
import type { Finding } from "./network-probe.ts";

/** A tool as the servers behind a route list it together, without overrides. */
interface OfferedTool {
  readonly name: string;
  readonly inputSchema?: unknown;
}

/** What the servers behind a route offer together, without overrides. */
export interface Offered {
  readonly tools: readonly OfferedTool[];
  readonly prompts: readonly string[];
  /** What the list of tools says about itself. */
  readonly meta: Readonly<Record<string, unknown>> | undefined;
}

/** Names in the configuration of several servers that fit nothing: most likely they are misspelled. */
export function findUnusedNames(config: FederationConfig, offered: Offered): readonly Finding[] {
  const isCertain = createCertainty(config, offered);
  return [
    ...overridesWithoutTool(config, offered),
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
function createCertainty({ members, separator }: FederationConfig, { meta }: Offered): (name: string) => boolean {
  const degraded = meta?.["headgate/degraded"];
  const missing = (Array.isArray(degraded) ? degraded : []).filter(isObject).map(({ upstream }) => upstream);
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

/** `tools.allow` of each server, which has the server's own names. */
function patternsWithoutTool(
  { members, separator }: FederationConfig,
  { tools, meta }: Offered,
): readonly UnusedName[] {
  const cut = meta?.["headgate/cut"];
  const ownNames = tools.map(({ name }) => ({ name, own: isObject(cut) ? cut[name] : undefined }));
  return members.flatMap(({ name: member, prefix, allowedTools = [] }) => {
    const beginning = prefix === "" ? "" : `${prefix}${separator}`;
    const own = ownNames
      .filter(({ name }) => name.startsWith(beginning))
      .map((one) => (typeof one.own === "string" ? one.own : one.name.slice(beginning.length)));
    return allowedTools
      .filter((pattern) => !own.some(createGlobTest([pattern])))
      .map((pattern) => ({
        name: `${beginning}${pattern}`,
        text: `upstreams.${member}.tools.allow: the server has no tool \`${pattern}\``,
        remedy: "write the name that the server itself uses",
      }));
  });
}

/** Views show names as clients see them, with overrides. What resources there are, lists need not say. */
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
