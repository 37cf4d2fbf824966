import { findByName, type PrincipalForm, principalFormsOf } from "../auth/principal-forms.ts";
import type { ExpressionScope } from "../policy/cel/facts.ts";
import { type ComparedText, type PrincipalTest, principalTestsOf } from "../policy/cel/principal-tests.ts";
import type { PlacedRoute } from "./auth-checks.ts";
import type { Config, RouteConfig } from "./config.ts";
import type { ConfigFinding, Path } from "./issues.ts";

type PolicyConfig = NonNullable<RouteConfig["policy"]>;

/**
 * Rules about callers that cannot exist, and rules about short names where several callers may have the same one. A rule
 * of the general policy is judged by all routes that use it.
 */
export function principalWarnings(
  auth: Config["auth"],
  general: PolicyConfig | undefined,
  routes: readonly PlacedRoute[],
): readonly ConfigFinding[] {
  const formsOf = ({ route }: PlacedRoute): readonly PrincipalForm[] => principalFormsOf(auth, route.auth);
  const own = routes.flatMap((placed) => {
    const { policy } = placed.written;
    return policy === undefined ? [] : policyWarnings(policy, [...placed.path, "policy"], [formsOf(placed)]);
  });
  const others = routes.filter(({ written }) => written.policy === undefined).map(formsOf);
  return general === undefined || others.length === 0 ? own : [...policyWarnings(general, ["policy"], others), ...own];
}

/** Describes the ids that callers can have. */
export function describeForms(forms: readonly PrincipalForm[]): string {
  return [...new Set(forms.map(({ shown }) => `\`${shown}\``))].join(", ");
}

function policyWarnings(
  policy: PolicyConfig,
  path: Path,
  callers: readonly (readonly PrincipalForm[])[],
): readonly ConfigFinding[] {
  return expressionsOf(policy).flatMap(({ text, scope, path: place }) => {
    const tests = principalTestsOf(text, scope);
    return [...impossible(tests, callers.flat()), ...ambiguous(tests, callers)].map(({ offset, message }) => ({
      path: [...path, ...place],
      message,
      offset,
    }));
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
    rule: {
      readonly allow?: string | undefined;
      readonly deny?: string | undefined;
      readonly apply?: string | undefined;
    },
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

function impossible(tests: readonly PrincipalTest[], forms: readonly PrincipalForm[]): readonly RuleFinding[] {
  return tests.flatMap(({ member, offset, compared }) => {
    if (compared === undefined || forms.some((form) => canPass(compared, member, form))) return [];
    const what = member === "id" ? "`principal.id`" : "`principal.name`";
    const how = compared.isWhole ? "is never" : "never matches";
    const [known] = member === "id" && compared.isWhole ? findByName(forms, compared.text) : [];
    const hint =
      known === undefined
        ? ""
        : `; did you mean ${JSON.stringify(known.id)}, or \`principal.name\` for the short name?`;
    const message = `${what} ${how} ${JSON.stringify(compared.text)}: callers have ids such as ${describeForms(forms)}${hint}`;
    return [{ message, offset }];
  });
}

function canPass({ accepts, start, isWhole }: ComparedText, member: PrincipalTest["member"], form: PrincipalForm) {
  const prefix = member === "id" ? form.prefix : "";
  if (form.names !== undefined) return form.names.some((name) => accepts(`${prefix}${name}`));
  if (isWhole) return start.startsWith(prefix) && form.isName(start.slice(prefix.length));
  return start.startsWith(prefix) || prefix.startsWith(start);
}

/** A short name can be that of several callers where ids have several forms. */
function ambiguous(
  tests: readonly PrincipalTest[],
  callers: readonly (readonly PrincipalForm[])[],
): readonly RuleFinding[] {
  const first = tests.find(({ member, compared }) => member === "name" && compared === undefined);
  const forms = callers.map((all) => all.filter(({ kind }) => kind !== "anonymous")).find(({ length }) => length > 1);
  if (first === undefined || forms === undefined) return [];
  const message = `several authenticators may give the same \`principal.name\`; compare \`principal.id\`, which is one of ${describeForms(forms)}`;
  return [{ message, offset: first.offset }];
}
