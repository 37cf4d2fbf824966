import { createDetector, type Detector, type Detection, type DetectorPattern } from "./detector.ts";

/**
 * A pattern with what may be before it besides the beginning of a word: an escape that ends in a letter or digit, as in
 * `url%3Ftoken%3Dghp_…`, which may be encoded several times, and in `\nghp_…`, where JSON is a text within JSON.
 */
function escapable(pattern: DetectorPattern): DetectorPattern {
  const { source, flags } = pattern.form;
  const form = source.replace(/^\(\?<!(\[[^\]]+\])\)/u, String.raw`(?:(?<!$1)|(?<=${escapes}))`);
  return { ...pattern, form: new RegExp(form, flags) };
}

const escapes = String.raw`%(?:25){0,3}[\dA-Fa-f]{2}|\\(?:[bfnrt]|u[\dA-Fa-f]{4}|x[\dA-Fa-f]{2})`;

/**
 * Keys and tokens with a known prefix. An underscore before one joins it to a name, as in `t_ghp_…`. Not before web tokens:
 * their parts are long, so that a text of such beginnings would be read again from each of them.
 */
const tokenPatterns: readonly DetectorPattern[] = [
  { kind: "aws-access-key", form: /(?<![\dA-Za-z-])(?:AKIA|ASIA|ABIA|ACCA)[2-7A-Z]{16}(?!\w)/gu },
  { kind: "github-token", hint: "gh", form: /(?<![\dA-Za-z])gh[oprsu]_[\dA-Za-z]{36,255}/gu },
  { kind: "github-token", hint: "github_pat_", form: /(?<![\dA-Za-z])github_pat_\w{22,255}/gu },
  { kind: "gitlab-token", hint: "glpat-", form: /(?<![\dA-Za-z-])glpat-[\w-]{20,255}/gu },
  { kind: "slack-token", hint: "xox", form: /(?<![\dA-Za-z-])xox[abcdeoprs]-[\dA-Za-z-]{10,255}/gu },
  { kind: "stripe-key", hint: "k_", form: /(?<![\dA-Za-z])[rs]k_(?:live|test)_[\dA-Za-z]{16,255}/gu },
  { kind: "model-api-key", hint: "sk-", form: /(?<![\dA-Za-z-])sk-[\w-]{20,255}/gu },
  { kind: "google-api-key", hint: "AIza", form: /(?<![\dA-Za-z-])AIza[\w-]{35}(?![\w-])/gu },
  { kind: "npm-token", hint: "npm_", form: /(?<![\dA-Za-z])npm_[\dA-Za-z]{36}(?!\w)/gu },
  { kind: "pypi-token", hint: "pypi-", form: /(?<![\dA-Za-z-])pypi-[\w-]{50,255}/gu },
  { kind: "headgate-key", hint: "hgk_", form: /(?<![\dA-Za-z])hgk_[\w-]{16,255}/gu },
  {
    kind: "json-web-encryption",
    hint: "eyJ",
    form: /(?<![\w-])eyJ[\w-]{10,8192}\.[\w-]{0,8192}\.[\w-]{8,8192}\.[\w-]{8,65536}\.[\w-]{8,8192}/gu,
  },
  {
    kind: "json-web-token",
    hint: "eyJ",
    form: /(?<![\w-])eyJ[\w-]{10,8192}\.eyJ[\w-]{10,8192}\.[\w-]{0,8192}/gu,
  },
];

export const secretPatterns: readonly DetectorPattern[] = [
  ...tokenPatterns.map(escapable),
  {
    kind: "url-signature",
    hint: "=",
    form: /(?<=[?&;](?:X-Amz-Signature|X-Amz-Security-Token|X-Goog-Signature|Signature|sig)=)[^\s"'&#<>]{8,4096}/giu,
  },
  {
    kind: "command-line-password",
    hint: "-u",
    form: /(?<=(?:^|\s)(?:-u|--user)[ =]["']?)[^\s"':]{1,128}:[^\s"']{1,256}/gu,
  },
  {
    kind: "url-password",
    hint: "%",
    form: /(?<=%3A%2F%2F)[^\s%/:@]{0,128}%3A[^\s"'/:@&]{1,256}?(?=%40)/giu,
  },
  // Up to the last `@`: people do not always encode one in a password.
  {
    kind: "url-password",
    hint: "://",
    form: /:\/\/[^\s/:@]{0,128}:(?:[^\s"'#/<>?@][^\s"'#/<>?]{0,255}|[^\s/@]{1,256})@/gu,
  },
];

const byPattern = createDetector(secretPatterns);

/** Finds keys, tokens, passwords in URLs and private keys. */
export const detectSecrets: Detector = (text) => {
  const detections = byPattern(text);
  return text.includes(keyBegin) ? [...detections, ...privateKeys(text)] : detections;
};

const keyBegin = "-----BEGIN ";
const keyEnd = "-----END ";
const longestLabel = 64;

/** Private keys in PEM (RFC 7468), up to the end line, or to the end of the text if that is missing. */
function privateKeys(text: string): readonly Detection[] {
  const detections: Detection[] = [];
  let at = text.indexOf(keyBegin);
  while (at !== -1) {
    const label = text.slice(at + keyBegin.length, at + keyBegin.length + longestLabel);
    if (/^[ A-Z]{0,40}PRIVATE KEY(?: BLOCK)?-----/u.test(label)) {
      const last = text.indexOf(keyEnd, at);
      const behind = last === -1 ? -1 : text.indexOf("-----", last + keyEnd.length);
      const end = behind === -1 ? text.length : behind + "-----".length;
      detections.push({ kind: "private-key", start: at, end });
      at = text.indexOf(keyBegin, end);
    } else at = text.indexOf(keyBegin, at + keyBegin.length);
  }
  return detections;
}
