/** A hint about a URL that lacks only its scheme. */
export function schemeHint(input: unknown, isValid: (url: string) => boolean): string {
  if (typeof input !== "string" || !/^[\w-]+(?:\.[\w-]+)+(?:[:/]|$)/u.test(input)) return "";
  return isValid(`https://${input}`) ? `; write \`https://${input}\`` : "";
}

/** Hints about a value of the wrong type, such as missing or needless quotes. */
export function quotesHint(expected: readonly string[], input: unknown): string {
  if (expected.includes("array") && typeof input === "string") return "; put its entries in `[` and `]`";
  if (expected.includes("string") && ["number", "boolean"].includes(typeof input)) return "; put it in quotes";
  if (typeof input !== "string") return "";
  const written = input.trim().toLowerCase();
  if (["number", "int"].some((type) => expected.includes(type))) {
    if (/^-?\d+(?:\.\d+)?$/u.test(written)) return "; leave out the quotes";
    const amount = plainNumber(written);
    if (amount !== undefined) return `; write ${amount}`;
  }
  if (expected.includes("boolean")) {
    if (written === "true" || written === "false") return "; leave out the quotes";
    if (Object.hasOwn(oldSwitches, written)) return `; write \`${oldSwitches[written]}\``;
  }
  return "";
}

/** Words for `true` and `false` in YAML 1.1, which are text in YAML 1.2. */
const oldSwitches: Readonly<Record<string, boolean>> = {
  yes: true,
  on: true,
  y: true,
  no: false,
  off: false,
  n: false,
};

/** The number that a string with separators or a byte unit stands for: `10_000`, `10MB`. */
function plainNumber(text: string): number | undefined {
  const { digits = "", unit = "" } = /^(?<digits>\d[\d_,]*(?:\.\d+)?) ?(?<unit>[kmg]?)i?b?$/u.exec(text)?.groups ?? {};
  const amount = digits === "" ? Number.NaN : Number(digits.replaceAll(/[_,]/gu, ""));
  const product = amount * 1024 ** ["", "k", "m", "g"].indexOf(unit);
  return Number.isSafeInteger(product) ? product : undefined;
}

/** Whether text that is copied from a web page or a word processor has its typographic quotes around it. */
export function hasTypographicQuotes(text: string): boolean {
  return /^[\u2018-\u201F\u00AB].*[\u2018-\u201F\u00BB]$/su.test(text);
}
