/** What `normalizeName` removes. */
const separators = String.raw`[\s_.\-/]*`;
const spread = (word: string): string => Array.from(word).join(separators);

/** Words that the name of a secret contains, and words that are the wholeNames name. */
const within = [
  "password",
  "passwd",
  "passcode",
  "passphrase",
  "pwd",
  "secret",
  "apikey",
  "privatekey",
  "accesskey",
  "signingkey",
  "encryptionkey",
  "masterkey",
  "authoriz",
  "credential",
  "cookie",
  "bearer",
  "basic",
  "requeststate",
];
const alone = ["auth", "otp"];

/** Matches any text that contains the name of a secret; a quick test before the exact one. */
export const secretHints: RegExp = new RegExp(
  [
    ...within.map(spread),
    `(?<!progress)${spread("token")}`,
    String.raw`${spread("pass")}(?![a-z])`,
    ...alone.map((word) => String.raw`(?<![a-z\d])${spread(word)}(?![a-z\d])`),
  ].join("|"),
  "iu",
);

export const wholeNames = new Set(["pwd", "pass", "otp", "auth", "cookie", "cookies", "credential", "credentials"]);

export const nameEndings = [
  "pass",
  "password",
  "passwd",
  "passcode",
  "passphrase",
  "secret",
  "secrets",
  "token",
  "apikey",
  "apitoken",
  "privatekey",
  "secretkey",
  "accesskey",
  "accesskeyid",
  "masterkey",
  "signingkey",
  "encryptionkey",
  "authorization",
  "setcookie",
  "requeststate",
];

/** Tokens that mark a position or a count and grant no access. */
const harmless = new Set([
  "progresstoken",
  "nexttoken",
  "pagetoken",
  "nextpagetoken",
  "continuationtoken",
  "synctoken",
  "maxtoken",
]);

/** Words that end in "pass" and have nothing to do with passwords. */
const harmlessPasses = ["bypass", "compass", "encompass", "trespass", "surpass", "overpass", "underpass"];

/** What may follow the name of a secret without changing that it is one: `password2`, `password_confirmation`. */
const suffix = /(?:\d+|confirmation|confirm|repeat|again|verification|string|binary|value|text|plain|b64|base64)$/u;

/** Plurals count tokens (`maxTokens`) unless they say which ones. */
const tokenLists = /(?:access|refresh|auth|api|bearer|session|id)tokens$/u;

/** Gives `apiKey`, `api_key`, `API-KEY` and `api.key` the same form. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_.\-/]/gu, "");
}

/** Whether the value of a name is always a secret. Takes normalized names. */
export function isSecretName(plain: string): boolean {
  let name = plain;
  for (;;) {
    if (wholeNames.has(name) || tokenLists.test(name)) return true;
    if (harmless.has(name)) return false;
    if (endsLikeSecret(name) || (name.endsWith("s") && !name.endsWith("tokens") && endsLikeSecret(name.slice(0, -1))))
      return true;
    const shorter = name.replace(suffix, "");
    if (shorter === name || shorter === "") return false;
    name = shorter;
  }
}

function endsLikeSecret(name: string): boolean {
  if (harmlessPasses.some((word) => name.endsWith(word))) return false;
  return nameEndings.some((ending) => name.endsWith(ending));
}
