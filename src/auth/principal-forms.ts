import { anonymous, type Principal } from "../core/exchange.ts";
import { keyIdPrefix } from "./api-key.ts";
import { certificateIdPrefix, type CertificateIdentity } from "./certificate.ts";
import { expandScopes, type ImpliedScopes, tokenIdPrefix } from "./token-principal.ts";

/** One form of the ids that an authenticator gives: a prefix, followed by the name of the caller. */
export interface PrincipalForm {
  readonly kind: Principal["kind"];
  readonly prefix: string;
  /** The only possible names; undefined where the issuer of the credentials chooses them. */
  readonly names: readonly string[] | undefined;
  /** The form as shown to people. */
  readonly shown: string;
  isName(name: string): boolean;
  /** What the configuration grants to a caller of this name. */
  granted(name: string): Pick<Principal, "scopes" | "claims">;
}

/** The settings of authenticators that decide which ids their callers have. */
export interface AuthenticatorIds {
  readonly authenticators: Readonly<
    Record<
      string,
      {
        readonly jwt?: TokenSettings | undefined;
        readonly introspection?: TokenSettings | undefined;
        readonly apiKeys?: { readonly keys: KeySettings } | undefined;
        readonly certificate?: CertificateSettings | undefined;
      }
    >
  >;
  readonly impliedScopes: ImpliedScopes;
}

interface TokenSettings {
  readonly issuer: string;
  readonly subjectClaim: string;
  readonly allowClients: boolean;
}

type KeySettings = Readonly<
  Record<string, { readonly scopes: readonly string[]; readonly labels: Readonly<Record<string, string>> }>
>;

interface CertificateSettings {
  readonly identity: CertificateIdentity;
  readonly scopes: readonly string[];
}

/** The part of a route's settings that says who may call. */
export interface AdmittedCallers {
  readonly use: readonly string[];
  readonly allowsAnonymous: boolean;
}

/** Every form of the ids that callers of a route can have. */
export function principalFormsOf(
  { authenticators, impliedScopes }: AuthenticatorIds,
  { use, allowsAnonymous }: AdmittedCallers,
): readonly PrincipalForm[] {
  const forms = use.flatMap((name) => {
    const { jwt, introspection, apiKeys, certificate } = authenticators[name] ?? {};
    const tokens = jwt ?? introspection;
    if (tokens !== undefined) return tokenForms(tokens);
    if (apiKeys !== undefined) return [keyForm(name, apiKeys.keys)];
    return certificate === undefined ? [] : [certificateForm(name, certificate)];
  });
  const implied = forms.map((form) => ({
    ...form,
    granted: (name: string) => {
      const { scopes, claims } = form.granted(name);
      return { scopes: expandScopes(scopes, impliedScopes), claims };
    },
  }));
  return allowsAnonymous ? [...implied, anonymousForm] : implied;
}

const anonymousForm: PrincipalForm = {
  kind: "anonymous",
  prefix: "",
  names: [anonymous.id],
  shown: anonymous.id,
  isName: (name) => name === anonymous.id,
  granted: () => anonymous,
};

function keyForm(authenticator: string, keys: KeySettings): PrincipalForm {
  const prefix = keyIdPrefix(authenticator);
  return {
    kind: "key",
    prefix,
    names: Object.keys(keys),
    shown: `${prefix}NAME`,
    isName: (name) => Object.hasOwn(keys, name),
    granted: (name) => ({ scopes: new Set(keys[name]?.scopes), claims: { sub: name, ...keys[name]?.labels } }),
  };
}

function tokenForms({ issuer, subjectClaim, allowClients }: TokenSettings): readonly PrincipalForm[] {
  const form = (holder: "subject" | "client", claim: string): PrincipalForm => {
    const prefix = tokenIdPrefix(issuer, holder);
    return {
      kind: "token",
      prefix,
      names: undefined,
      shown: `${prefix}${claim.toUpperCase()}`,
      isName: (name) => name !== "",
      granted: (name) => ({ scopes: new Set(), claims: { iss: issuer, [claim]: name } }),
    };
  };
  return [form("subject", subjectClaim), ...(allowClients ? [form("client", "client_id")] : [])];
}

/** What the parts of a certificate that can identify its holder look like. */
const certificateNames: Readonly<Record<CertificateIdentity, RegExp>> = {
  subject: /=/u,
  uri: /:/u,
  dns: /^[^/:@=]+$/u,
  email: /@/u,
  fingerprint: /^[\da-f]{64}$/u,
};

function certificateForm(authenticator: string, { identity, scopes }: CertificateSettings): PrincipalForm {
  const prefix = certificateIdPrefix(authenticator);
  return {
    kind: "certificate",
    prefix,
    names: undefined,
    shown: `${prefix}${identity.toUpperCase()}`,
    isName: (name) => certificateNames[identity].test(name),
    granted: (name) => ({ scopes: new Set(scopes), claims: { sub: name } }),
  };
}

/** A caller that the configuration admits. */
export interface FoundPrincipal {
  readonly id: string;
  readonly name: string;
  readonly form: PrincipalForm;
}

/** The caller with an id; undefined if no authenticator gives such an id. */
export function findPrincipal(forms: readonly PrincipalForm[], id: string): FoundPrincipal | undefined {
  for (const form of forms) {
    const name = id.startsWith(form.prefix) ? id.slice(form.prefix.length) : undefined;
    if (name !== undefined && form.isName(name)) return { id, name, form };
  }
  return undefined;
}

/** Every caller that may have a short name. */
export function findByName(forms: readonly PrincipalForm[], name: string): readonly FoundPrincipal[] {
  return forms.filter((form) => form.isName(name)).map((form) => ({ id: `${form.prefix}${name}`, name, form }));
}
