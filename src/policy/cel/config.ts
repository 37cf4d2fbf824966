import * as z from "zod";

import { notPointer, pointerForm, pointerProblem, type PointerRoot } from "../provider/edit-pointer.ts";
import { checkExpression, type ExpressionType } from "./expression.ts";
import type { ExpressionScope } from "./facts.ts";

const nameLists = nameListsOf(z.string().min(1));

/** The names of tools and prompts have none of the characters that mean something in other patterns. */
const namePatterns = nameListsOf(
  z
    .string()
    .min(1)
    .regex(/^(?!\s)[^?[\]{}|\\^$]*(?<!\s)$/u, {
      error: "would match no name: only `*` is special, and stands for any text; write one entry for each name",
    }),
);

function nameListsOf(pattern: z.ZodString) {
  const names = z.array(pattern);
  return z.strictObject({
    allow: names.optional().describe("The only names to show; `*` matches any text. All names if omitted."),
    deny: names.default([]).describe("Names to hide; wins over `allow`."),
  });
}

const ruleId = z
  .string()
  .max(100)
  .regex(/^[\dA-Za-z][\w.-]*$/u, { error: "is not a rule id: letters, digits, `.`, `_` and `-`" })
  .optional()
  .describe("Name of the rule in logs and explanations; its position in the list if omitted.");

const shadow = z.boolean().default(false).describe("Record what the rule would do, without doing it.");

function pointerFrom(root: PointerRoot) {
  return z
    .string()
    .regex(pointerForm, { error: notPointer })
    .superRefine((pattern, context) => {
      const message = pointerForm.test(pattern) ? pointerProblem(pattern, root) : undefined;
      if (message !== undefined) context.addIssue({ code: "custom", message });
    });
}

const scopeName = z.string().regex(/^[!#-[\]-~]+$/u, { error: "is not an OAuth scope" });

const refusal = {
  reason: z.string().min(1).max(1000).optional().describe("With `deny`: the message the agent gets."),
  code: z
    .string()
    .regex(/^[a-z][\d_a-z]*$/u, { error: "is not a reason code: lower-case letters, digits and `_`" })
    .optional()
    .describe("With `deny`: a stable code for programs; `denied_by_rule` if omitted."),
};

function editsIn(root: PointerRoot) {
  const pointers = z.array(pointerFrom(root)).default([]);
  return {
    redact: pointers.describe('JSON Pointers of values to replace by `"[redacted]"`; missing values are ignored.'),
    remove: pointers.describe("JSON Pointers of members and elements to remove."),
  };
}

const onDetection = z.enum(["redact", "deny", "note"]);

const callRule = z
  .strictObject({
    id: ruleId,
    ...conditions("call"),
    ...refusal,
    hide: z
      .boolean()
      .default(false)
      .describe("With `deny`: answer as if the name did not exist, and leave it out of lists."),
    requireScope: z
      .array(scopeName)
      .min(1)
      .optional()
      .describe("OAuth scopes the caller's token must have; a caller without them gets a step-up challenge."),
    rate: z
      .strictObject({
        perSecond: z.number().positive().max(1_000_000).describe("Sustained messages per second."),
        burst: z
          .int()
          .min(1)
          .max(1_000_000)
          .optional()
          .describe("Messages allowed at once; one second's worth if omitted."),
        by: expression("call", "key")
          .default("principal.id")
          .describe("CEL for the key that is counted separately: caller, tenant, tool."),
      })
      .optional()
      .describe("Rate limit for messages that the rule allows."),
    set: z
      .record(pointerFrom("arguments"), z.unknown())
      .default({})
      .superRefine((values, context) => {
        for (const [key, value] of Object.entries(values)) {
          if (typeof value === "string") check(value, "call", "value", context, [key]);
        }
      })
      .describe("Arguments to set, by JSON Pointer: a string is CEL, anything else is the literal value."),
    ...editsIn("arguments"),
    shadow,
  })
  .superRefine(checkShape)
  .superRefine(({ set, redact, remove, deny, requireScope, rate }, context) => {
    const changes = Object.keys(set).length + redact.length + remove.length;
    if (deny !== undefined && (changes > 0 || requireScope !== undefined || rate !== undefined))
      context.addIssue({ code: "custom", message: "a `deny` rule has no other effects", path: ["deny"] });
  });

const resultRule = z
  .strictObject({
    id: ruleId,
    ...conditions("result"),
    ...refusal,
    ...editsIn("result"),
    detect: z
      .strictObject({
        secrets: onDetection.optional().describe("Keys, tokens and private keys."),
        personalData: onDetection.optional().describe("Email addresses, phone, bank and card numbers."),
      })
      .optional()
      .describe("What to detect in every string of the result, and what to do when it is found."),
    shadow,
  })
  .superRefine(checkShape);

const listRule = z
  .strictObject({
    id: ruleId,
    allow: expression("list", "bool").optional().describe("CEL: show the entry if true."),
    deny: expression("list", "bool").optional().describe("CEL: hide the entry if true."),
    shadow,
  })
  .superRefine(({ allow, deny }, context) => {
    if ((allow === undefined) === (deny === undefined))
      context.addIssue({ code: "custom", message: "needs exactly one of `allow` and `deny`" });
  });

/** The config fields of the embedded rules. */
export const rulesFields = {
  tools: namePatterns.optional().describe("Tools that clients can see, by name."),
  prompts: namePatterns.optional().describe("Prompts that clients can see, by name."),
  resources: nameLists.optional().describe("Resources that clients can see, by URI."),
  rules: z
    .array(callRule)
    .superRefine(checkIds)
    .optional()
    .describe(
      "Rules for requests and notifications, in order: the first true `allow` or `deny` decides; `apply` acts and continues. If there are rules, anything that none allows is refused, and what they can never allow a caller is not listed.",
    ),
  results: z
    .array(resultRule)
    .superRefine(checkIds)
    .optional()
    .describe(
      "Rules for results, in order. A result that no rule decides passes, unless one of the rules is an `allow`.",
    ),
  lists: z
    .array(listRule)
    .superRefine(checkIds)
    .optional()
    .describe(
      "Rules for list entries, in order. An entry that no rule decides is shown, unless one of the rules is an `allow`.",
    ),
};

const rulesConfig = z.strictObject(rulesFields);

/** The settings of the embedded provider. */
export type RulesConfig = DeepReadonly<z.output<typeof rulesConfig>>;
export type CallRuleConfig = DeepReadonly<z.output<typeof callRule>>;
export type ResultRuleConfig = DeepReadonly<z.output<typeof resultRule>>;
export type ListRuleConfig = DeepReadonly<z.output<typeof listRule>>;

type DeepReadonly<T> = T extends object ? { readonly [Key in keyof T]: DeepReadonly<T[Key]> } : T;

function conditions(scope: ExpressionScope) {
  return {
    deny: expression(scope, "bool").optional().describe("CEL: refuse if true."),
    allow: expression(scope, "bool").optional().describe("CEL: allow if true, with the effects below."),
    apply: expression(scope, "bool").optional().describe("CEL: apply the effects below if true, then continue."),
  };
}

/** A CEL expression, checked when the config is read; an issue carries the offset of the mistake in its text. */
function expression(scope: ExpressionScope, type: ExpressionType) {
  return z.string().superRefine((text, context) => {
    check(text, scope, type, context, []);
  });
}

/** Advice about a value that was meant as a string. */
export const textHint = "a string is CEL, so write '\"eu\"' for the text eu";

function check(
  text: string,
  scope: ExpressionScope,
  type: ExpressionType,
  context: z.RefinementCtx,
  path: readonly string[],
): void {
  const problem = checkExpression(text, scope, type);
  if (problem === undefined) return;
  const { offset } = problem;
  const message = type === "value" ? `${problem.message}; ${textHint}` : problem.message;
  context.addIssue({ code: "custom", message, path: [...path], params: { offset } });
}

interface WrittenRule {
  readonly deny?: string | undefined;
  readonly allow?: string | undefined;
  readonly apply?: string | undefined;
  readonly reason?: string | undefined;
  readonly code?: string | undefined;
  readonly hide?: boolean;
}

function checkShape({ deny, allow, apply, reason, code, hide }: WrittenRule, context: z.RefinementCtx): void {
  if ([deny, allow, apply].filter((condition) => condition !== undefined).length !== 1)
    context.addIssue({ code: "custom", message: "needs exactly one of `deny`, `allow` and `apply`" });
  else if (deny === undefined && (reason !== undefined || code !== undefined || hide === true))
    context.addIssue({ code: "custom", message: "`reason`, `code` and `hide` go with `deny` only" });
}

/** Ids identify rules in explanations, so they must be unique. */
function checkIds(rules: readonly { readonly id?: string | undefined }[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, { id }] of rules.entries()) {
    if (id === undefined) continue;
    if (seen.has(id))
      context.addIssue({ code: "custom", message: `another rule is called \`${id}\``, path: [index, "id"] });
    seen.add(id);
  }
}
