import { cutTailLength } from "../lib/cut-name.ts";
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

/** The part of a scheme that everybody writes alike (RFC 3986, section 3.1). */
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
    // The prefix of a cut name must survive, or nobody could tell whose it is.
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
    return [{ path: place, message: `has the prefix \`${prefix}\`, as \`${other.name}\` has; set another \`prefix\`` }];
  });
}

function referenceProblems(path: Path, { members, instructions }: FederationConfig): readonly ConfigFinding[] {
  if (typeof instructions === "string" || members.some(({ name }) => name === instructions.from)) return [];
  const where = [...path, "federation", "instructions", "from"];
  return [{ path: where, message: `no server \`${instructions.from}\` in \`upstreams\`` }];
}

/** Names that clients refuse, and two tools with the same one. */
function overrideProblems(path: Path, { overrides, nameLength }: FederationConfig): readonly ConfigFinding[] {
  const tools = Object.entries(overrides.tools);
  return tools.flatMap(([tool, { name }], index) => {
    const where = [...path, "overrides", "tools", tool, "name"];
    if (name !== undefined && name.length > nameLength)
      return [{ path: where, message: `is longer than \`federation.nameLength\` (${nameLength} characters)` }];
    const other = tools.slice(0, index).find(([, earlier]) => name !== undefined && earlier.name === name);
    if (other === undefined) return [];
    return [{ path: where, message: `\`${other[0]}\` is called \`${name}\` too` }];
  });
}
