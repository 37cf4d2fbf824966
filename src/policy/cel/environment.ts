import { createRequire } from "node:module";

import type { Environment } from "@marcbachmann/cel-js";
import type * as Cel from "@marcbachmann/cel-js";
import type * as Regex from "re2js";
import type { RE2JS } from "re2js";

import { McpFacts, PrincipalFacts, RequestFacts, SessionFacts } from "./facts.ts";
import { celTypes, type ExpressionScope, type TypeName, variables } from "./scope.ts";

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

const load = createRequire(import.meta.url);
let cel: typeof Cel | undefined;
let regex: typeof Regex | undefined;

/** The CEL implementation; loaded when a policy first needs it, for it would cost every other start its time. */
export function celEngine(): typeof Cel {
  return (cel ??= load("@marcbachmann/cel-js") as typeof Cel);
}

/** Regular expressions that take linear time, whatever the pattern and the text. */
function re2Engine(): typeof Regex {
  return (regex ??= load("re2js") as typeof Regex);
}

/** Patterns of loaded rules; there are as many as the configuration has, for none comes from a message. */
const patterns = new Map<string, RE2JS>();

/** Compiles a pattern for later; the answer is what is wrong with it, if anything. */
export function preparePattern(pattern: string): string | undefined {
  if (patterns.has(pattern)) return undefined;
  try {
    patterns.set(pattern, re2Engine().RE2JS.compile(pattern));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message.replace(/^error parsing regexp: /u, "") : String(error);
  }
}

/** Whether a pattern is found in a text, as CEL's `matches` says it, in time linear to the text. */
function matchesRe2(text: string, pattern: string): boolean {
  const compiled = patterns.get(pattern);
  if (compiled === undefined) throw new Error("a pattern was not prepared");
  return compiled.test(text);
}
