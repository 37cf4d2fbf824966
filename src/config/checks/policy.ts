import { findByName, type PrincipalForm, principalFormsOf } from "../../auth/principal-forms.ts";
import type { ExpressionScope } from "../../policy/cel/facts.ts";
import { type ComparedText, type MemberTest, memberTestsOf } from "../../policy/cel/member-tests.ts";
import { closestName } from "../../lib/closest-name.ts";
import { isInOwnNamespace, methodNames } from "../../protocol/methods.ts";
import type { PlacedRoute } from "./auth.ts";
import type { Config, RouteConfig } from "../config.ts";
import type { ConfigFinding, Path } from "../issues.ts";

type PolicyConfig = NonNullable<RouteConfig["policy"]>;

/**
 * Rules that cannot do what they say: about callers, methods and other values that do not exist, about short names that
 * several callers may have, and after a rule that decides everything. A rule of the general policy is checked
 * against all routes that use it.
 */
export function policyWarnings(
  auth: Config["auth"],
  general: PolicyConfig | undefined,
  routes: readonly PlacedRoute[],
): readonly ConfigFinding[] {
  const formsOf = ({ route }: PlacedRoute): readonly PrincipalForm[] => principalFormsOf(auth, route.auth);
  const own = routes.flatMap((placed) => {
    const { policy } = placed.written;
    return policy === undefined ? [] : warningsOf(policy, [...placed.path, "policy"], [formsOf(placed)]);
  });
  const others = routes.filter(({ written }) => written.policy === undefined).map(formsOf);
  return general === undefined || others.length === 0 ? own : [...warningsOf(general, ["policy"], others), ...own];
}

/** Describes the ids that callers can have. */
export function describeForms(forms: readonly PrincipalForm[]): string {
  return [...new Set(forms.map(({ shown }) => `\`${shown}\``))].join(", ");
}

function warningsOf(
  policy: PolicyConfig,
  path: Path,
  callers: readonly (readonly PrincipalForm[])[],
): readonly ConfigFinding[] {
  const doubtful = expressionsOf(policy).flatMap(({ text, scope, path: place }) => {
    const tests = memberTestsOf(text, scope);
    const found = [...impossible(tests, callers.flat()), ...ambiguous(tests, callers), ...unheardOf(tests)];
    return found.map(({ offset, message }) => ({ path: [...path, ...place], message, offset }));
  });
  const idle = [...withoutRules(policy), ...unreachable(policy)];
  return [...doubtful, ...idle.map((finding) => ({ ...finding, path: [...path, ...finding.path] }))];
}

/** An empty list is easily taken for no rules at all. */
function withoutRules({ rules }: PolicyConfig): readonly ConfigFinding[] {
  if (rules === undefined || rules.length > 0) return [];
  const message = "is empty, so everything is refused: add a rule, or leave `rules` out to allow everything";
  return [{ path: ["rules"], message }];
}

/** Rules after one that decides every message. */
function unreachable({ rules = [], results = [], lists = [] }: PolicyConfig): readonly ConfigFinding[] {
  return Object.entries({ rules, results, lists }).flatMap(([list, entries]): readonly ConfigFinding[] => {
    const last = entries.findIndex(decidesAll);
    const decided = entries[last];
    if (decided === undefined || last === entries.length - 1) return [];
    const name = decided.id === undefined ? `\`${list}[${last}]\`` : `\`${decided.id}\``;
    return [{ path: [list, last + 1], message: `is never reached: ${name} above decides everything; put that last` }];
  });
}

interface RuleForm {
  readonly allow?: string | undefined;
  readonly deny?: string | undefined;
  readonly apply?: string | undefined;
}

function decidesAll(rule: RuleForm & { readonly shadow: boolean }): boolean {
  // A rule that asks for a scope, or limits a rate, still ends the list.
  return !rule.shadow && (rule.allow ?? rule.deny)?.trim() === "true";
}

/** Members that have only certain values, and names in which `*` would not be a pattern. */
const possibleValues: Readonly<Record<string, readonly string[]>> = {
  "mcp.method": ["", ...methodNames],
  "mcp.direction": ["client-to-server", "server-to-client"],
  "mcp.kind": ["request", "notification", "result", "error"],
  "principal.kind": ["anonymous", "token", "key", "certificate"],
  "request.transport": ["http", "sse", "stdio", "in-process"],
  "entry.kind": ["tool", "prompt", "resource", "resource-template"],
};
const names: ReadonlySet<string> = new Set([
  "mcp.tool",
  "mcp.name",
  "mcp.prompt",
  "mcp.resource",
  "entry.name",
  "entry.uri",
]);

function unheardOf(tests: readonly MemberTest[]): readonly RuleFinding[] {
  return tests.flatMap(({ member, offset, compared }) => {
    if (compared === undefined) return [];
    const { text, isWhole, accepts } = compared;
    if (names.has(member)) {
      if (!isWhole || !/^[^*]+\*$/u.test(text)) return [];
      const hint = `\`*\` is no pattern here; write \`${member}.startsWith(${JSON.stringify(text.slice(0, -1))})\``;
      return [{ message: `\`${member}\` is never ${JSON.stringify(text)}: ${hint}`, offset }];
    }
    const values = Object.hasOwn(possibleValues, member) ? (possibleValues[member] ?? []) : [];
    if (values.length === 0 || values.some(accepts)) return [];
    const meant = isWhole ? closestName(text, values) : undefined;
    // Extensions have methods of their own.
    if (member === "mcp.method" && meant === undefined && !isInOwnNamespace(text)) return [];
    const how = isWhole ? "is never" : "never matches";
    const hint =
      meant === undefined
        ? member === "mcp.method"
          ? "MCP has no such method"
          : `it is one of ${values.map((value) => JSON.stringify(value)).join(", ")}`
        : `did you mean ${JSON.stringify(meant)}?`;
    return [{ message: `\`${member}\` ${how} ${JSON.stringify(text)}; ${hint}`, offset }];
  });
}

interface WrittenExpression {
  readonly text: string;
  readonly scope: ExpressionScope;
  readonly path: Path;
}

function expressionsOf({ rules = [], results = [], lists = [] }: PolicyConfig): readonly WrittenExpression[] {
  const conditions = (
    list: string,
    scope: ExpressionScope,
    index: number,
    rule: RuleForm,
  ): readonly WrittenExpression[] =>
    (["allow", "deny", "apply"] as const).flatMap((key) => {
      const text = rule[key];
      return text === undefined ? [] : [{ text, scope, path: [list, index, key] }];
    });
  return [
    ...rules.flatMap((rule, index): readonly WrittenExpression[] => [
      ...conditions("rules", "call", index, rule),
      ...(rule.rate === undefined
        ? []
        : [{ text: rule.rate.by, scope: "call" as const, path: ["rules", index, "rate", "by"] }]),
      ...Object.entries(rule.set).flatMap(([pointer, value]) =>
        typeof value === "string"
          ? [{ text: value, scope: "call" as const, path: ["rules", index, "set", pointer] }]
          : [],
      ),
    ]),
    ...results.flatMap((rule, index) => conditions("results", "result", index, rule)),
    ...lists.flatMap((rule, index) => conditions("lists", "list", index, rule)),
  ];
}

interface RuleFinding {
  readonly message: string;
  readonly offset: number;
}

function impossible(tests: readonly MemberTest[], forms: readonly PrincipalForm[]): readonly RuleFinding[] {
  return tests.flatMap(({ member, offset, compared }) => {
    const isId = member === "principal.id";
    if ((!isId && member !== "principal.name") || compared === undefined) return [];
    if (forms.some((form) => canPass(compared, isId, form))) return [];
    const what = `\`${member}\``;
    const how = compared.isWhole ? "is never" : "never matches";
    const [known] = isId && compared.isWhole ? findByName(forms, compared.text) : [];
    const hint =
      known === undefined
        ? ""
        : `; did you mean ${JSON.stringify(known.id)}, or \`principal.name\` for the short name?`;
    const message = `${what} ${how} ${JSON.stringify(compared.text)}: callers have ids such as ${describeForms(forms)}${hint}`;
    return [{ message, offset }];
  });
}

function canPass({ accepts, start, isWhole }: ComparedText, isId: boolean, form: PrincipalForm): boolean {
  const prefix = isId ? form.prefix : "";
  if (form.names !== undefined) return form.names.some((name) => accepts(`${prefix}${name}`));
  if (isWhole) return start.startsWith(prefix) && form.isName(start.slice(prefix.length));
  return start.startsWith(prefix) || prefix.startsWith(start);
}

/** Where ids have several forms, several callers can share a short name. */
function ambiguous(
  tests: readonly MemberTest[],
  callers: readonly (readonly PrincipalForm[])[],
): readonly RuleFinding[] {
  const first = tests.find(({ member, compared }) => member === "principal.name" && compared === undefined);
  const forms = callers.map((all) => all.filter(({ kind }) => kind !== "anonymous")).find(({ length }) => length > 1);
  if (first === undefined || forms === undefined) return [];
  const message = `several authenticators may give the same \`principal.name\`; compare \`principal.id\`, which is one of ${describeForms(forms)}`;
  return [{ message, offset: first.offset }];
}
