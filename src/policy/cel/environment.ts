import type * as Cel from "@marcbachmann/cel-js";
import type { RE2JS as Pattern } from "re2js";

import {
  celTypes,
  type ExpressionScope,
  McpFacts,
  PrincipalFacts,
  RequestFacts,
  SessionFacts,
  type TypeName,
  variables,
} from "./facts.ts";
import { cel, re2 } from "../../lib/lazy-modules.ts";
import { countMatch, meters } from "./metering.ts";

/** Replaces the engine's `matches`, which can take exponential time. */
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

/** Metered expressions have more nodes and parentheses than those that they are made from. */
const meteredLimits = { ...limits, maxAstNodes: 4 * limits.maxAstNodes, maxDepth: 4 * limits.maxDepth };

type EnvironmentUse = "check" | "metered";

const environments = new Map<string, Cel.Environment>();

/** The environment for the expressions of a scope, as written or metered; created once. */
export function environmentOf(scope: ExpressionScope, use: EnvironmentUse = "check"): Cel.Environment {
  const key = `${scope} ${use}`;
  const known = environments.get(key);
  if (known !== undefined) return known;
  const { Environment } = cel();
  const environment = new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: use === "metered" ? meteredLimits : limits,
  });
  for (const [name, fields] of Object.entries(celTypes)) {
    // The keys of the table are the type names.
    environment.registerType(name, { ctor: classes[name as TypeName], fields: { ...fields } });
  }
  for (const [name, type] of Object.entries(variables[scope])) environment.registerVariable(name, type);
  environment.registerFunction(`string.${linearMatches}(string): bool`, matchesPattern, { async: false });
  if (use === "metered") {
    for (const [meter, count] of Object.entries(meters))
      environment.registerFunction(`${meter}(dyn): dyn`, count, { async: false });
  }
  environments.set(key, environment);
  return environment;
}

/** Compiled patterns. They come from the configuration only, so their number is bounded. */
const patterns = new Map<string, Pattern>();

/** Compiles a pattern for `matches`; returns what is wrong with it, if anything. */
export function preparePattern(pattern: string): string | undefined {
  try {
    const { RE2JS } = re2();
    if (!patterns.has(pattern)) patterns.set(pattern, RE2JS.compile(pattern));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^error parsing regexp: /u, "") : String(error);
  }
}

/** Whether a string matches a compiled pattern, in linear time (RE2). */
export function hasMatch(text: string, pattern: string): boolean {
  const compiled = patterns.get(pattern);
  if (compiled === undefined) throw new Error("the pattern was not compiled");
  return compiled.test(text);
}

/** CEL's `matches`, counted against the budget. */
function matchesPattern(text: string, pattern: string): boolean {
  countMatch(text);
  return hasMatch(text, pattern);
}
