/** What `normalizeName` removes. */
const separators = String.raw`[\s_.\-/]*`;
const spread = (word: string): string => Array.from(word).join(separators);

/** Words that the name of a secret contains, and words that are the whole name. */
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
  "authoriz",
  "credential",
  "cookie",
  "bearer",
  "basic",
  "requeststate",
];
const alone = ["pass", "auth", "otp"];

/** Matches any text that contains the name of a secret; a quick test before the exact one. */
export const secretHints: RegExp = new RegExp(
  [
    ...within.map(spread),
    `(?<!progress)${spread("token")}`,
    ...alone.map((word) => String.raw`(?<![a-z\d])${spread(word)}(?![a-z\d])`),
  ].join("|"),
  "iu",
);

const whole = new Set(["pwd", "pass", "otp", "auth", "cookie", "cookies", "credential", "credentials"]);

const endings = [
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
  "signingkey",
  "encryptionkey",
  "authorization",
  "setcookie",
  "requeststate",
];

/** All names of secrets, without prefixes. */
export const secretNames: readonly string[] = [...whole, ...endings];

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

/** Gives `apiKey`, `api_key`, `API-KEY` and `api.key` the same form. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_.\-/]/gu, "");
}

/** Whether the value of a name is always a secret. Takes normalized names. */
export function isSecretName(plain: string): boolean {
  if (whole.has(plain)) return true;
  if (harmless.has(plain)) return false;
  return endings.some((ending) => plain.endsWith(ending));
}
