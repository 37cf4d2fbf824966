import * as z from "zod";

import { durationField } from "../lib/duration.ts";
import { authZenConfig } from "./authzen/config.ts";
import { rulesFields } from "./cel/config.ts";
import { canonicalUri, isCanonicalTemplate } from "./provider/canonical-uri.ts";
import { sidebandConfig } from "./sideband/config.ts";

/** The `policy` section of the configuration: at the top for all routes, or in a route instead. */
export const policyConfig = z
  .strictObject({
    ...rulesFields,
    pingAuthorize: sidebandConfig.optional().describe("A PingAuthorize server that decides instead of rules."),
    authzen: authZenConfig.optional().describe("An AuthZEN decision point that decides instead of rules."),
    shadow: z.boolean().default(false).describe("Make and record decisions, but let every message pass unchanged."),
    refusals: z
      .enum(["default", "coaz", "ping"])
      .default("default")
      .describe(
        "Error codes of refusals: the gateway's own, those of the AuthZEN binding for MCP, or those of the PingAuthorize plugin.",
      ),
    refusalStatus: z
      .enum(["in-band", "forbidden"])
      .default("in-band")
      .describe(
        "Answer a denied request in band (200, the agent sees the reason) or with HTTP 403 (many clients ignore the body).",
      ),
    timeout: durationField("5s").describe("Time limit for one decision."),
    failOpen: z
      .boolean()
      .default(false)
      .describe("Let messages pass when no decision is available; each is logged and counted. Fails closed if false."),
  })
  .superRefine(checkProvider)
  .superRefine(checkResourceUris);

/**
 * Requests are matched in their canonical spelling, so a pattern in another one would never match: a `deny` that denies
 * nothing.
 */
function checkResourceUris({ resources }: ResourceLists, context: z.RefinementCtx): void {
  for (const list of ["allow", "deny"] as const) {
    for (const [index, pattern] of (resources?.[list] ?? []).entries()) {
      // A wildcard stands for text of any canonical URI; letters change nothing about the spelling around it.
      const uri = pattern.replaceAll("*", wildcardStandIn);
      const canonical = canonicalUri(uri);
      if (canonical === uri || pattern.startsWith("*") || isTemplate(uri)) continue;
      const spelling = canonical?.replaceAll(wildcardStandIn, "*");
      const hint = spelling === undefined ? "write a URI" : `write "${spelling}"`;
      const message = `"${pattern}" never matches, because URIs are compared in their canonical spelling; ${hint}`;
      context.addIssue({ code: "custom", message, path: ["resources", list, index] });
    }
  }
}

const wildcardStandIn = "wildcard";

/** Resource templates are matched by the same lists. */
function isTemplate(uri: string): boolean {
  return uri.includes("{") && isCanonicalTemplate(uri);
}

interface ResourceLists {
  readonly resources?:
    | { readonly allow?: readonly string[] | undefined; readonly deny?: readonly string[] | undefined }
    | undefined;
}

/** Decision points that replace the rules. */
const remoteProviders = ["pingAuthorize", "authzen"] as const;

/** Exactly one provider decides. */
function checkProvider(policy: Readonly<Record<string, unknown>>, context: z.RefinementCtx): void {
  const remote = remoteProviders.find((name) => policy[name] !== undefined);
  if (remote === undefined) return;
  const others = [...Object.keys(rulesFields), ...remoteProviders];
  const other = others.find((name) => name !== remote && policy[name] !== undefined);
  if (other === undefined) return;
  const message = `\`${remote}\` cannot be combined with \`${other}\``;
  context.addIssue({ code: "custom", message, path: [other] });
}

/** A configured policy. */
export type PolicyConfig = z.output<typeof policyConfig>;
