import * as z from "zod";

import { createAuthZenConfig } from "./authzen/config.ts";
import { checkExpression, type ExpressionType } from "./cel/expression.ts";
import type { ExpressionScope } from "./cel/scope.ts";
import { createSidebandConfig } from "./sideband/config.ts";

/** A field for a duration in milliseconds with its default as people write it; the configuration hands its own in. */
type DurationField = (fallback: string) => z.ZodPrefault<z.ZodType<number, string | number>>;

const names = z.array(z.string().min(1));

const nameLists = z.strictObject({
  allow: names.optional().describe("The only names that there are, `*` standing for any text; all names unless given."),
  deny: names.default([]).describe("Names that there are not, whatever `allow` says."),
});

const ruleId = z
  .string()
  .max(100)
  .regex(/^[\dA-Za-z][\w.-]*$/u, { error: "is not a rule id: letters, digits, `.`, `_` and `-`" })
  .optional()
  .describe("The name of the rule in logs and explanations; its place in the list unless given.");

const shadow = z
  .boolean()
  .default(false)
  .describe("Whether it is only recorded what the rule would do, and nothing is done.");

const pointer = z.string().regex(/^(?:\/(?:[^/~]|~[01])*)+$/u, {
  error: "is not a JSON Pointer such as `/user/email`; `*` stands for any member or element",
});

const scopeName = z.string().regex(/^[!#-[\]-~]+$/u, { error: "is not an OAuth scope" });

const refusal = {
  reason: z.string().min(1).max(1000).optional().describe("With `deny`: what the agent is told."),
  code: z
    .string()
    .regex(/^[a-z][\d_a-z]*$/u, { error: "is not a reason code: lower-case letters, digits and `_`" })
    .optional()
    .describe("With `deny`: a stable code for programs; `denied_by_rule` unless given."),
};

const edits = {
  redact: z
    .array(pointer)
    .default([])
    .describe('JSON Pointers of values that become `"[redacted]"`; what is not there is no matter.'),
  remove: z.array(pointer).default([]).describe("JSON Pointers of members and elements that are taken out."),
};

const finding = z.enum(["redact", "deny", "note"]);

const callRule = z
  .strictObject({
    id: ruleId,
    ...conditions("call"),
    ...refusal,
    hide: z.boolean().default(false).describe("With `deny`: whether the refusal looks as if there were no such name."),
    requireScope: z
      .array(scopeName)
      .min(1)
      .optional()
      .describe("Scopes that the caller's token must have; one that has not is asked to get them."),
    rate: z
      .strictObject({
        perSecond: z.number().positive().max(1_000_000).describe("Messages a second, in the long run."),
        burst: z
          .int()
          .min(1)
          .max(1_000_000)
          .optional()
          .describe("Messages at once after a pause; as many as in a second unless given."),
        by: expression("call", "key")
          .default("principal.id")
          .describe("CEL for what is counted apart: callers, tenants, tools."),
      })
      .optional()
      .describe("How often the rule may let pass."),
    set: z
      .record(pointer, z.unknown())
      .default({})
      .superRefine((values, context) => {
        for (const [key, value] of Object.entries(values)) {
          if (typeof value === "string") check(value, "call", "value", context, [key]);
        }
      })
      .describe("Arguments by JSON Pointer and what they become: a text is CEL, anything else is the value itself."),
    ...edits,
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
    ...edits,
    detect: z
      .strictObject({
        secrets: finding.optional().describe("Keys, tokens and private keys."),
        personalData: finding.optional().describe("Mail addresses, bank and card numbers and the like."),
      })
      .optional()
      .describe("What is looked for in every text of the answer, and what is done about it."),
    shadow,
  })
  .superRefine(checkShape);

const listRule = z
  .strictObject({
    id: ruleId,
    allow: expression("list", "bool").optional().describe("CEL: the entry is shown if this is true."),
    deny: expression("list", "bool").optional().describe("CEL: the entry is hidden if this is true."),
    shadow,
  })
  .superRefine(({ allow, deny }, context) => {
    if ((allow === undefined) === (deny === undefined))
      context.addIssue({ code: "custom", message: "needs exactly one of `allow` and `deny`" });
  });

/** The rules of the embedded provider as they are configured. */
export const rulesFields = {
  tools: nameLists.optional().describe("Which tools there are for clients, by name."),
  prompts: nameLists.optional().describe("Which prompts there are for clients, by name."),
  resources: nameLists.optional().describe("Which resources there are for clients, by URI."),
  rules: z
    .array(callRule)
    .superRefine(checkIds)
    .optional()
    .describe(
      "Rules for requests and notifications, in order: the first `allow` or `deny` that is true decides, `apply` acts and goes on. Where there are rules, what none allows is refused.",
    ),
  results: z
    .array(resultRule)
    .superRefine(checkIds)
    .optional()
    .describe("Rules for answers, in order; what none decides passes, unless one of them is an `allow`."),
  lists: z
    .array(listRule)
    .superRefine(checkIds)
    .optional()
    .describe(
      "Rules for the entries of lists, in order; what none decides is shown, unless one of them is an `allow`.",
    ),
};

const rulesConfig = z.strictObject(rulesFields);

/** The settings of the embedded provider. */
export type RulesConfig = Readable<z.output<typeof rulesConfig>>;
export type CallRuleConfig = Readable<z.output<typeof callRule>>;
export type ResultRuleConfig = Readable<z.output<typeof resultRule>>;
export type ListRuleConfig = Readable<z.output<typeof listRule>>;

/** The same type with everything in it read-only. */
type Readable<T> = T extends object ? { readonly [Key in keyof T]: Readable<T[Key]> } : T;

/** The `policy` part of the configuration, at the top for all routes or under a route instead of that. */
export function createPolicyConfig(duration: DurationField) {
  const fields = {
    ...rulesFields,
    pingAuthorize: createSidebandConfig(duration)
      .optional()
      .describe("A PingAuthorize server that decides, in place of rules and names."),
    authzen: createAuthZenConfig(duration)
      .optional()
      .describe("An AuthZEN decision point that decides, in place of rules and names."),
    shadow: z
      .boolean()
      .default(false)
      .describe("Whether decisions are only made and recorded, and every message passes as it came."),
    refusals: z
      .enum(["default", "coaz", "ping"])
      .default("default")
      .describe(
        "The form of refusals: our own codes, those of the AuthZEN binding for MCP, or those of the PingAuthorize plugin.",
      ),
    denialStatus: z
      .enum(["in-band", "forbidden"])
      .default("in-band")
      .describe(
        "Whether a denial is an answer in band, whose reason agents get to see, or an HTTP status 403, where many clients look no further.",
      ),
    timeout: duration("5s").describe("How long a decision may take."),
    failOpen: z
      .boolean()
      .default(false)
      .describe("Whether messages pass where no decision can be had; each is logged and counted."),
  };
  return z.strictObject(fields).superRefine(checkProvider);
}

/** One provider decides: two that disagree would need a third. */
function checkProvider(policy: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const elsewhere = remoteProviders.find((name) => policy[name] !== undefined);
  if (elsewhere === undefined) return;
  const others = [...Object.keys(rulesFields), ...remoteProviders];
  const own = others.find((name) => name !== elsewhere && policy[name] !== undefined);
  if (own === undefined) return;
  const message = `\`${elsewhere}\` decides alone: \`${own}\` cannot stand beside it`;
  context.addIssue({ code: "custom", message, path: [own] });
}

/** Decision points that are asked in place of rules. */
const remoteProviders = ["pingAuthorize", "authzen"] as const;

/** A policy as it is configured. */
export type PolicyConfig = z.output<ReturnType<typeof createPolicyConfig>>;

/** The `audit` part of the configuration: decisions as lines of JSON in a file of their own. */
export function createAuditConfig(duration: DurationField) {
  return z.strictObject({
    file: z.string().min(1).describe("Path of the file; the folder must be there."),
    maxBytes: z
      .int()
      .min(1024)
      .default(104_857_600)
      .describe("Size at which a new file is begun; the old one gets the time added to its name."),
    maxAge: duration("24h").describe("Age at which a new file is begun."),
    keep: z.int().min(0).max(10_000).default(14).describe("How many old files are kept."),
    queueBytes: z
      .int()
      .min(1024)
      .default(8_388_608)
      .describe("Most bytes that wait to be written; what comes beyond that is dropped and counted."),
    onFailure: z
      .enum(["log", "refuse"])
      .default("log")
      .describe("Whether messages pass while decisions cannot be written, or are refused."),
  });
}

/** An audit stream as it is configured. */
export type AuditConfig = z.output<ReturnType<typeof createAuditConfig>>;

function conditions(scope: ExpressionScope) {
  return {
    deny: expression(scope, "bool").optional().describe("CEL: refused if this is true."),
    allow: expression(scope, "bool").optional().describe("CEL: goes on if this is true, with the effects below."),
    apply: expression(scope, "bool")
      .optional()
      .describe("CEL: the effects below take place if this is true, and the rules after it are asked."),
  };
}

/** A CEL expression, checked as soon as it is read; the place of a mistake in its text goes with the issue. */
function expression(scope: ExpressionScope, wanted: ExpressionType) {
  return z.string().superRefine((text, context) => {
    check(text, scope, wanted, context, []);
  });
}

function check(
  text: string,
  scope: ExpressionScope,
  wanted: ExpressionType,
  context: z.RefinementCtx,
  path: readonly string[],
): void {
  const problem = checkExpression(text, scope, wanted);
  if (problem === undefined) return;
  const { message, offset } = problem;
  context.addIssue({ code: "custom", message, path: [...path], params: { offset } });
}

function checkShape(
  rule: {
    readonly deny?: string | undefined;
    readonly allow?: string | undefined;
    readonly apply?: string | undefined;
    readonly reason?: string | undefined;
    readonly code?: string | undefined;
    readonly hide?: boolean;
  },
  context: z.RefinementCtx,
): void {
  const { deny, allow, apply, reason, code, hide } = rule;
  if ([deny, allow, apply].filter((condition) => condition !== undefined).length !== 1)
    context.addIssue({ code: "custom", message: "needs exactly one of `deny`, `allow` and `apply`" });
  else if (deny === undefined && (reason !== undefined || code !== undefined || hide === true))
    context.addIssue({ code: "custom", message: "`reason`, `code` and `hide` go with `deny` only" });
}

/** Two rules of one name could not be told apart in an explanation. */
function checkIds(rules: readonly { readonly id?: string | undefined }[], context: z.RefinementCtx): void {
  const seen = new Set<string>();
  for (const [index, { id }] of rules.entries()) {
    if (id !== undefined && seen.has(id))
      context.addIssue({ code: "custom", message: `another rule is called \`${id}\``, path: [index, "id"] });
    if (id !== undefined) seen.add(id);
  }
}
