import { isDeepStrictEqual } from "node:util";

import { cutTailLength } from "../../lib/text/cut-name.ts";
import type { FederationConfig, RouteConfig } from "../config.ts";
import type { ConfigFinding, Path } from "../issues.ts";

interface PlacedRoute {
  readonly path: Path;
  readonly route: RouteConfig;
}

/** Finds what is wrong with the servers of a route. */
export function federationProblems(routes: readonly PlacedRoute[]): readonly ConfigFinding[] {
  return routes.flatMap(({ path, route: { upstream } }) => {
    if (upstream.type !== "federation") return [];
    return [
      ...prefixProblems(path, upstream),
      ...referenceProblems(path, upstream),
      ...overrideProblems(path, upstream),
      ...argumentProblems(path, upstream),
      ...viewProblems(path, upstream),
    ];
  });
}

/** The lower-case form of a URI scheme (RFC 3986, section 3.1). */
const schemeForm = /^[a-z][a-z\d-]*$/u;

/** A name must split into prefix and name in one way only, so that no rule can apply to a tool it was not written for. */
function prefixProblems(path: Path, config: FederationConfig): readonly ConfigFinding[] {
  const { members, separator, nameLength } = config;
  return members.flatMap(({ name, prefix, uris }, index) => {
    const place = path[0] === "mcpServers" ? [...path, name] : [...path, "upstreams", name];
    const isFirst = `${prefix}${separator}`.indexOf(separator) === prefix.length;
    if (prefix !== "" && !isFirst)
      return [
        {
          path: place,
          message: `the prefix \`${prefix}\` contains the separator \`${separator}\`; set another \`prefix\``,
        },
      ];
    // The prefix of a cut name must survive, because it names the server.
    const needed = prefix.length + separator.length + cutTailLength + 1;
    if (prefix !== "" && needed > nameLength)
      return [
        {
          path: place,
          message: `the prefix \`${prefix}\` leaves no room for names of ${nameLength} characters; set a shorter \`prefix\`, or \`federation.nameLength\` to ${needed} or more`,
        },
      ];
    if (uris === "prefix" && !schemeForm.test(prefix))
      return [
        {
          path: place,
          message: `\`uris: prefix\` needs a \`prefix\` that a URI can begin with: lower-case letters, digits and \`-\`, not \`${prefix}\``,
        },
      ];
    const other = members.slice(0, index).find((earlier) => prefix !== "" && earlier.prefix === prefix);
    if (other === undefined) return [];
    return [{ path: place, message: `has the same prefix \`${prefix}\` as \`${other.name}\`; set another \`prefix\`` }];
  });
}

function referenceProblems(path: Path, { members, instructions }: FederationConfig): readonly ConfigFinding[] {
  if (typeof instructions === "string" || members.some(({ name }) => name === instructions.from)) return [];
  const where = [...path, "federation", "instructions", "from"];
  return [{ path: where, message: `no server \`${instructions.from}\` in \`upstreams\`` }];
}

/** How names of a route begin, for an error message; undefined if the name or pattern may match one. */
function otherBeginnings(name: string, { members, separator }: FederationConfig): string | undefined {
  const star = name.indexOf("*");
  const literal = star === -1 ? name : name.slice(0, star);
  const beginnings = members.map(({ prefix }) => (prefix === "" ? "" : `${prefix}${separator}`));
  const fits = beginnings.some(
    (beginning) => literal.startsWith(beginning) || (star !== -1 && beginning.startsWith(literal)),
  );
  return fits ? undefined : beginnings.map((beginning) => `\`${beginning}\``).join(" or ");
}

/** The server whose prefix a name has. */
function ownerByPrefix(name: string, { members, separator }: FederationConfig): string | undefined {
  return members.find(({ prefix }) => prefix !== "" && name.startsWith(`${prefix}${separator}`))?.name;
}

/** Tools that cannot exist, names that clients refuse or that look like those of other servers, and duplicate names. */
function overrideProblems(path: Path, config: FederationConfig): readonly ConfigFinding[] {
  const { overrides, nameLength } = config;
  const tools = Object.entries(overrides.tools);
  return tools.flatMap(([tool, { name }], index) => {
    const list = [...path, "overrides", "tools"];
    const where = [...list, tool, "name"];
    if (tool.includes("*"))
      return [
        {
          path: list,
          key: tool,
          message: `\`${tool}\` is not a name: name each tool, \`*\` matches nothing here`,
        },
      ];
    const beginnings = otherBeginnings(tool, config);
    if (beginnings !== undefined)
      return [{ path: list, key: tool, message: `no server has a tool \`${tool}\`: names begin with ${beginnings}` }];
    if (name !== undefined && name.length > nameLength)
      return [{ path: where, message: `is longer than \`federation.nameLength\` (${nameLength} characters)` }];
    const owner = name === undefined ? undefined : ownerByPrefix(name, config);
    if (owner !== undefined && owner !== ownerByPrefix(tool, config))
      return [{ path: where, message: `\`${name}\` looks like a tool of \`${owner}\`; choose another name` }];
    const other = tools.slice(0, index).find(([, earlier]) => name !== undefined && earlier.name === name);
    if (other === undefined) return [];
    return [{ path: where, message: `\`${other[0]}\` is called \`${name}\` too` }];
  });
}

/** Settings of an argument that contradict each other. */
function argumentProblems(path: Path, { overrides }: FederationConfig): readonly ConfigFinding[] {
  return Object.entries(overrides.tools).flatMap(([tool, { arguments: list }]) =>
    Object.entries(list).flatMap(([argument, { fixed, default: fallback, enum: values }]) => {
      const where = [...path, "overrides", "tools", tool, "arguments", argument];
      const extra = fallback === undefined ? "enum" : "default";
      if (fixed !== undefined && (fallback !== undefined || values !== undefined))
        return [{ path: [...where, extra], message: "has no effect with `fixed`; remove one of them" }];
      if (fallback === undefined || values === undefined || values.some((value) => isDeepStrictEqual(value, fallback)))
        return [];
      return [{ path: [...where, "default"], message: "is not one of the values in `enum`" }];
    }),
  );
}

/** Views that are empty, and names in them that cannot exist. */
function viewProblems(path: Path, config: FederationConfig): readonly ConfigFinding[] {
  const overridden = Object.entries(config.overrides.tools);
  return config.views.flatMap((view) => {
    const place = [...path, "views", view.name];
    if (view.tools.length + view.prompts.length + view.resources.length === 0)
      return [
        {
          path: place,
          message: 'offers nothing: name its `tools`, `prompts` or `resources` (`tools: ["*"]` for all tools)',
        },
      ];
    return (["tools", "prompts"] as const).flatMap((kind) =>
      view[kind].flatMap((name, index): ConfigFinding[] => {
        const where = [...place, kind, index];
        if (kind === "tools" && overridden.some(([, given]) => given.name === name)) return [];
        const renamed = kind === "tools" ? overridden.find(([tool]) => tool === name)?.[1].name : undefined;
        if (renamed !== undefined)
          return [
            { path: where, message: `\`${name}\` is called \`${renamed}\` by \`overrides\`; write \`${renamed}\`` },
          ];
        const beginnings = otherBeginnings(name, config);
        if (
          beginnings === undefined ||
          (kind === "tools" && name.includes("*") && overridden.some(([, given]) => given.name !== undefined))
        )
          return [];
        return [{ path: where, message: `no server has \`${name}\`: names begin with ${beginnings}` }];
      }),
    );
  });
}
