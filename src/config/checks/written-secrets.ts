import { isObject } from "../../lib/is-object.ts";
import { parseUrl } from "../../lib/addresses.ts";
import { type ConfigFinding, formatPath, type Path } from "../issues.ts";

/** A secret that a file holds as text. */
export interface WrittenSecret {
  readonly path: Path;
  /** The secret itself, without what surrounds it. */
  readonly value: string;
}

/** The secrets that a file holds as text, instead of naming a variable or another file. */
export function writtenSecrets(tree: unknown, replaced: ReadonlySet<string>): readonly WrittenSecret[] {
  const found: WrittenSecret[] = [];
  const visit = (value: unknown, path: Path): void => {
    if (Array.isArray(value)) for (const [index, inner] of value.entries()) visit(inner, [...path, index]);
    else if (isObject(value)) for (const [key, inner] of Object.entries(value)) visit(inner, [...path, key]);
    else if (typeof value === "string" && !replaced.has(formatPath(path))) {
      const secret = secretIn(value, path);
      // A variable that no shell replaces has a warning of its own.
      if (secret !== "" && !/^[$%]\w/u.test(secret)) found.push({ path, value: secret });
    }
  };
  visit(tree, []);
  return found;
}

export function writtenSecretWarning({ path }: WrittenSecret): ConfigFinding {
  return { path, message: "holds a secret as text; write `${env:NAME}` or `${file:PATH}`" };
}

function secretIn(text: string, path: Path): string {
  const [holder, key] = path.slice(-2).map(String);
  if (key === undefined) return "";
  // After the name of a scheme, such as `Bearer`.
  if (holder === "headers") return secretHeader.test(key) ? (text.trim().split(/\s+/u).at(-1) ?? "") : "";
  if (holder === "env") return secretVariable.test(key) ? text : "";
  const isOwn = key === "sharedSecret" || key === "clientSecret" || formatPath(path) === "cluster.secret";
  if (isOwn || (path[0] === "state" && holder === "keys")) return text;
  return key === "url" || key.endsWith("Url") ? (parseUrl(text)?.password ?? "") : "";
}

/** Headers that hold credentials. */
const secretHeader = /^authorization$|^cookie$|(?:^|[-_])(?:api[-_]?key|key|token|secret|password|credentials?)$/iu;
/** Variables that hold credentials. Others, such as `TOKEN_FILE` and `KEY_ID`, only name them. */
const secretVariable =
  /(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASS|PAT|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE)_?KEY)$/iu;
