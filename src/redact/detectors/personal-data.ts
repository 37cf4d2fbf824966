import { createDetector, type Detector, type Detection, type DetectorPattern } from "./detector.ts";

/** Numbers that identify people and their accounts. */
export const personalPatterns: readonly DetectorPattern[] = [
  { kind: "card-number", form: /(?<!\d|\d\.)\d(?:[ -]?\d){12,18}(?!\d|\.\d)/gu, check: hasLuhnDigit },
  {
    kind: "iban",
    form: /(?<![\dA-Za-z])[A-Z]{2}\d{2}(?: ?[\dA-Z]{4}){2,7}(?: ?[\dA-Z]{1,3})?(?![\dA-Za-z])/gu,
    check: hasIbanDigits,
  },
  {
    kind: "social-security-number",
    hint: "-",
    form: /(?<![\d-])(?!000|666|9)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\d-])/gu,
  },
  { kind: "phone-number", hint: "+", form: /(?<![\d+A-Za-z])\+[1-9](?:[ ().-]{0,2}\d){7,14}(?!\d)/gu },
];

const byPattern = createDetector(personalPatterns);

/** Finds email addresses, and phone, card, bank account and US social security numbers. */
export const detectPersonalData: Detector = (text) => {
  const detections = byPattern(text);
  return text.includes("@") ? [...detections, ...mailAddresses(text)] : detections;
};

const localPart = /[\w!#$%&'*+./=?^`{|}~-]/u;
const longestLocal = 64;
const domain = /(?:[\dA-Za-z](?:[\dA-Za-z-]{0,61}[\dA-Za-z])?\.){1,8}[A-Za-z]{2,63}/uy;

/** Searches outwards from each `@`, so that a text without one costs nothing. */
function mailAddresses(text: string): readonly Detection[] {
  const detections: Detection[] = [];
  for (let at = text.indexOf("@"); at !== -1; at = text.indexOf("@", at + 1)) {
    let start = at;
    while (start > 0 && at - start < longestLocal && localPart.test(text.charAt(start - 1))) start--;
    domain.lastIndex = at + 1;
    const match = start === at ? null : domain.exec(text);
    if (match !== null) detections.push({ kind: "mail-address", start, end: domain.lastIndex });
  }
  return detections;
}

/** Whether the check digit is right (ISO/IEC 7812-1, annex B). */
function hasLuhnDigit(match: string): boolean {
  const digits = Array.from(match.replaceAll(/[ -]/gu, ""), Number).toReversed();
  const sum = digits.reduce((total, digit, index) => {
    const weighed = index % 2 === 0 ? digit : digit * 2;
    return total + (weighed > 9 ? weighed - 9 : weighed);
  }, 0);
  return sum % 10 === 0 && digits.some((digit) => digit !== 0);
}

/** ISO 13616: with country and check digits moved to the end, the number modulo 97 is 1. */
function hasIbanDigits(match: string): boolean {
  const plain = match.replaceAll(" ", "");
  let rest = 0;
  for (const letter of plain.slice(4) + plain.slice(0, 4)) {
    const value = Number.parseInt(letter, 36);
    rest = (rest * (value > 9 ? 100 : 10) + value) % 97;
  }
  return rest === 1;
}
