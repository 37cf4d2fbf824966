import type { Environment } from "@marcbachmann/cel-js";

import { celEngine } from "./engine.ts";
import { McpFacts, PrincipalFacts, RequestFacts, SessionFacts } from "./facts.ts";
import { matchesRe2 } from "./linear-match.ts";
import { celTypes, variables, type ExpressionScope, type TypeName } from "./scope.ts";

/** The name under which `matches` is called in place of the engine's own, which may take exponential time. */
export const linearMatches = "matchesLinear";

const classes: Readonly<Record<TypeName, new (...args: never[]) => object>> = {
  Mcp: McpFacts,
  Principal: PrincipalFacts,
  Request: RequestFacts,
  Session: SessionFacts,
};

const limits = {
  maxAstNodes: 2000,
  maxDepth: 100,
  maxListElements: 1000,
  maxMapEntries: 200,
  maxCallArguments: 8,
};

const made = new Map<ExpressionScope, Environment>();

/** The environment in which the expressions of a scope are checked and evaluated; making one is costly. */
export function environmentOf(scope: ExpressionScope): Environment {
  const known = made.get(scope);
  if (known !== undefined) return known;
  const { Environment: CelEnvironment } = celEngine();
  const environment = new CelEnvironment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits,
  });
  for (const [name, fields] of Object.entries(celTypes)) {
    // The names are those of the table itself.
    environment.registerType(name, { ctor: classes[name as TypeName], fields: { ...fields } });
  }
  for (const [name, type] of Object.entries(variables[scope])) environment.registerVariable(name, type);
  environment.registerFunction(`string.${linearMatches}(string): bool`, matchesRe2, { async: false });
  made.set(scope, environment);
  return environment;
}
