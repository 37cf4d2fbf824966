/** What a byte may be part of, in bits. */
const is = { lower: 1, upper: 2, digit: 4, mark: 8, between: 16, telling: 32 } as const;

const classes = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const letter = String.fromCharCode(byte);
  // Escapes have to be read first, letters beyond ASCII to be compared by their case; the rest tells what it is.
  if (byte >= 128 || "\\@+".includes(letter)) classes[byte] = is.telling;
  else if (/[a-z]/u.test(letter)) classes[byte] = is.lower;
  else if (/[A-Z]/u.test(letter)) classes[byte] = is.upper;
  else if (/\d/u.test(letter)) classes[byte] = is.digit;
  else if ("_-".includes(letter)) classes[byte] = is.mark;
  else if (" .()".includes(letter)) classes[byte] = is.between;
}

/** Three letters of each word that the name of a secret holds (`secretHints`), rare ones, as five bits each. */
const letters = new Uint8Array(32_768);
for (const [one = "", two = "", three = ""] of "ass pwd ecr tok key aut ede kie rer sic tst otp".split(" ")) {
  const code = [one, two, three].reduce((sum, letter) => sum * 32 + (letter.charCodeAt(0) & 31), 0);
  letters[code] = 1;
}

/** Digits from which on they may be the number of somebody. */
const shortestNumber = 9;
/** Letters, digits and marks from which on they may be a key or a token. */
const shortestToken = 13;

/**
 * Looks at the bytes of a JSON text once. Where it says yes, there is no name of a secret in them, nor anything that our
 * detectors of secrets and of personal data find; where it says no, there may be, and they have to look.
 */
export function holdsNoSecret(bytes: Uint8Array, start: number, end: number): boolean {
  let recent = 0;
  let digits = 0;
  let run = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    const own = classes[byte] ?? 0;
    if (own <= is.upper && own !== 0) {
      recent = ((recent << 5) | (byte & 31)) & 0x7f_ff;
      if (letters[recent] === 1) return false;
      run++;
      digits = 0;
      continue;
    }
    if (own === is.telling) return false;
    if (own === is.digit) {
      if (++digits === shortestNumber || beginsAccount(bytes, at)) return false;
      recent = 0;
      run++;
    } else if (own === is.mark) {
      // Private keys begin with a row of them.
      if (byte === 0x2d && bytes[at - 1] === 0x2d) return false;
      if (byte === 0x5f) digits = 0;
      run++;
    } else {
      if (own !== is.between) {
        digits = 0;
        // A word goes on behind what may stand within a name, such as a space or a slash.
        if (byte !== 0x2f) recent = 0;
      }
      if (run >= shortestToken && mayBeToken(bytes, at - run, at)) return false;
      run = 0;
    }
  }
  return run < shortestToken || !mayBeToken(bytes, end - run, end);
}

/** Numbers of accounts begin with two letters and two digits; the second of those is here. */
function beginsAccount(bytes: Uint8Array, at: number): boolean {
  return (
    classes[bytes[at - 1] ?? 0] === is.digit &&
    classes[bytes[at - 2] ?? 0] === is.upper &&
    classes[bytes[at - 3] ?? 0] === is.upper
  );
}

/** Words are letters only, some of them small. Two kinds of tokens may be that too, and begin alike. */
function mayBeToken(bytes: Uint8Array, start: number, end: number): boolean {
  let has = 0;
  for (let at = start; at < end; at++) has |= classes[bytes[at] ?? 0] ?? 0;
  if ((has & (is.digit | is.mark)) !== 0 || (has & is.lower) === 0) return true;
  return (
    (bytes[start] === 0x65 && bytes[start + 1] === 0x79 && bytes[start + 2] === 0x4a) ||
    (bytes[start] === 0x41 && bytes[start + 1] === 0x49)
  );
}
