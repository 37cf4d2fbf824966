import * as z from "zod";

import { findPrincipal, findByName, type FoundPrincipal, principalFormsOf } from "../../auth/principal-forms.ts";
import { expandScopes } from "../../auth/token-principal.ts";
import type { Config, RouteConfig } from "../../config/config.ts";
import { describeForms } from "../../config/principal-checks.ts";
import type { Principal } from "../../core/exchange.ts";
import { GatewayError } from "../../errors.ts";

/** How a caller authenticated. */
export const principalKind = z.enum(["anonymous", "token", "key", "certificate"]);

/** A caller as it is written in a case or on the command line: by full id, by short name, or just somebody. */
export const principalInput = z
  .strictObject({
    id: z.string().min(1).optional(),
    name: z.string().min(1).optional(),
    kind: principalKind.optional(),
    scopes: z.array(z.string()).optional(),
    claims: z.record(z.string(), z.unknown()).default({}),
  })
  .refine(({ id, name }) => id === undefined || name === undefined, {
    error: "cannot have both `id` and `name`: the id contains the name",
  });

/** The caller that is meant, and why nobody can be that. */
export interface SamplePrincipal {
  readonly principal: Principal;
  readonly warning: string | undefined;
}

const somebody = "somebody";

/**
 * The principal of a written caller, with the id, scopes and claims that it has at run time. What is written replaces the
 * scopes and is added to the claims. Throws if a short name can mean several callers.
 */
export function toSamplePrincipal(
  { id, name, kind, scopes, claims }: z.output<typeof principalInput>,
  route: RouteConfig,
  { auth }: Pick<Config, "auth">,
): SamplePrincipal {
  const forms = principalFormsOf(auth, route.auth);
  const byName = name === undefined ? [] : findByName(forms, name);
  if (byName.length > 1) {
    const ids = byName.map((one) => JSON.stringify(one.id)).join(" or ");
    throw new GatewayError("config_invalid", `the principal name \`${name}\` is ambiguous; write the id: ${ids}`);
  }
  const found: FoundPrincipal | undefined = id === undefined ? byName[0] : findPrincipal(forms, id);
  const granted = found?.form.granted(found.name);
  const written = id ?? name;
  return {
    principal: {
      id: found?.id ?? written ?? somebody,
      kind: kind ?? found?.form.kind ?? "token",
      scopes: scopes === undefined ? new Set(granted?.scopes) : expandScopes(scopes, auth.impliedScopes),
      claims: { ...granted?.claims, ...claims },
    },
    warning:
      found !== undefined || written === undefined
        ? undefined
        : `no caller of route \`${route.name}\` has the ${id === undefined ? "name" : "id"} \`${written}\`; ids there are ${describeForms(forms)}`,
  };
}
