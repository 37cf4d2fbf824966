/** What `normalizeName` leaves out. */
const separators = String.raw`[\s_.\-/]*`;
const spread = (word: string): string => Array.from(word).join(separators);

/** Words that the name of a secret holds, wherever in it, and those that are all of it. */
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

/** Words that a name has to hold to be the name of a secret; used to see quickly that there is none. */
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

/** All names that are secrets by themselves, without what may stand before some of them. */
export const secretNames: readonly string[] = [...whole, ...endings];

/** Tokens that stand for a place or a count, not for a right. */
const harmless = new Set([
  "progresstoken",
  "nexttoken",
  "pagetoken",
  "nextpagetoken",
  "continuationtoken",
  "synctoken",
  "maxtoken",
]);

/** A name without the differences between `apiKey`, `api_key`, `API-KEY` and `api.key`. */
export function normalizeName(name: string): string {
  return name.toLowerCase().replaceAll(/[\s_.\-/]/gu, "");
}

/** Whether a value under this name is a secret, whatever it looks like. Takes names as `normalizeName` makes them. */
export function isSecretName(plain: string): boolean {
  if (whole.has(plain)) return true;
  if (harmless.has(plain)) return false;
  return endings.some((ending) => plain.endsWith(ending));
}
