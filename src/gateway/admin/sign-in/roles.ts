import type { Claims } from "../../../auth/oidc-login.ts";
import type { Config } from "../../../config/config.ts";
import { asObject } from "../../../lib/is-object.ts";
import { type Caller, type Right, rights } from "./sign-in.ts";

/** Sign-in by OpenID Connect, as configured. */
export type SignInConfig = NonNullable<Exclude<Config["admin"], false>["signIn"]>;

/** The principal of a person, from the claims of the issuer; undefined without a role. */
export function callerOfClaims(
  claims: Claims,
  { issuer, nameClaim, roleClaim, roles }: Pick<SignInConfig, "issuer" | "nameClaim" | "roleClaim" | "roles">,
): Caller | undefined {
  const values = new Set(["*", ...roleValues(claims, roleClaim)]);
  const holds = (wanted: readonly string[], right: Right): readonly Right[] =>
    wanted.some((value) => values.has(value)) ? [right] : [];
  const given = [
    ...holds(roles.viewer, "view"),
    ...holds(roles.operator, "operate"),
    ...holds(roles.approver, "approve"),
    ...holds(roles.bodyReader, "bodies"),
  ];
  const subject = claims["sub"];
  if (given.length === 0 || typeof subject !== "string") return undefined;
  const name = claims[nameClaim];
  const own = new Set<Right>(["view", ...given]);
  return {
    name: typeof name === "string" && name !== "" ? name : subject,
    subject: `${issuer}#${subject}`,
    rights: rights.filter((right) => own.has(right)),
  };
}

/** The groups or roles of a person. An unverified address does not count, because people choose it themselves. */
export function roleValues(claims: Claims, roleClaim: string): readonly string[] {
  if (roleClaim === "email" && claims["email_verified"] !== true) return [];
  const value = Object.hasOwn(claims, roleClaim) ? claims[roleClaim] : nested(claims, roleClaim.split("."));
  const values: readonly unknown[] = [value].flat();
  return values.filter((one): one is string => typeof one === "string" && one !== "*");
}

function nested(value: unknown, path: readonly string[]): unknown {
  const [name, ...rest] = path;
  if (name === undefined) return value;
  const object = asObject(value);
  return object !== undefined && Object.hasOwn(object, name) ? nested(object[name], rest) : undefined;
}
