import type { FederationConfig, RouteConfig } from "./config.ts";
import type { ConfigFinding, Path } from "./issues.ts";

interface PlacedRoute {
  readonly path: Path;
  readonly route: RouteConfig;
}

/** What is wrong with the servers of a route. */
export function federationProblems(routes: readonly PlacedRoute[]): readonly ConfigFinding[] {
  return routes.flatMap(({ path, route: { upstream } }) => {
    if (upstream.type !== "federation") return [];
    return [
      ...prefixProblems(path, upstream),
      ...referenceProblems(path, upstream),
      ...overrideProblems(path, upstream),
    ];
  });
}

/** A name must split into prefix and name in one way only, so that no rule can apply to a tool it was not written for. */
function prefixProblems(path: Path, { members, separator }: FederationConfig): readonly ConfigFinding[] {
  return members.flatMap(({ name, prefix }, index) => {
    const place = path[0] === "mcpServers" ? [...path, name] : [...path, "upstreams", name];
    const isFirst = `${prefix}${separator}`.indexOf(separator) === prefix.length;
    if (prefix !== "" && !isFirst)
      return [
        {
          path: place,
          message: `the prefix \`${prefix}\` contains the separator \`${separator}\`; set another \`prefix\``,
        },
      ];
    const other = members.slice(0, index).find((earlier) => prefix !== "" && earlier.prefix === prefix);
    if (other === undefined) return [];
    return [{ path: place, message: `has the prefix \`${prefix}\`, as \`${other.name}\` has; set another \`prefix\`` }];
  });
}

function referenceProblems(path: Path, { members, instructions }: FederationConfig): readonly ConfigFinding[] {
  if (typeof instructions === "string" || members.some(({ name }) => name === instructions.from)) return [];
  const where = [...path, "federation", "instructions", "from"];
  return [{ path: where, message: `no server \`${instructions.from}\` in \`upstreams\`` }];
}

/** Two tools must not get the same name. */
function overrideProblems(path: Path, { overrides }: FederationConfig): readonly ConfigFinding[] {
  const tools = Object.entries(overrides.tools);
  return tools.flatMap(([tool, { name }], index) => {
    const other = tools.slice(0, index).find(([, earlier]) => name !== undefined && earlier.name === name);
    if (other === undefined) return [];
    const where = [...path, "overrides", "tools", tool, "name"];
    return [{ path: where, message: `\`${other[0]}\` is called \`${name}\` too` }];
  });
}
