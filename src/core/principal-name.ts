/**
 * The short name of a principal: what its authenticator calls the caller, without saying which authenticator that was.
 * Names are for people. Two authenticators may give the same one, so nothing that protects anything may rely on it alone.
 *
 * | Full form (`principal.id`)        | Short name |
 * | --------------------------------- | ---------- |
 * | `https://issuer.example#ann`      | `ann`      |
 * | `https://issuer.example?client=ci`| `ci`       |
 * | `key:robots/ann`                  | `ann`      |
 * | `certificate:mesh/CN=ann`         | `CN=ann`   |
 * | `anonymous`                       | `anonymous`|
 */
export function principalNameOf(id: string): string {
  return form.exec(id)?.groups?.["name"] ?? id;
}

/** What comes before the name. An issuer has neither `#` nor `?`, the name of an authenticator no slash. */
const prefix = String.raw`https?://[^#?]*(?:#|\?client=)|(?:key|certificate):[^/]*/`;
const form = new RegExp(`^(?:${prefix})(?<name>.*)$`, "su");

/** An RE2 pattern of ids whose short name is this text; in a glob, `*` matches any text. */
export function principalNamePattern(name: string, isGlob: boolean): string {
  const parts = (isGlob ? name.split("*") : [name]).map((part) =>
    part.replaceAll(/[$()*+.?[\\\]^{|}]/gu, String.raw`\$&`),
  );
  return `^(?:${prefix})(?${isGlob && parts.length > 1 ? "is" : "s-i"}:${parts.join(".*")})$`;
}
