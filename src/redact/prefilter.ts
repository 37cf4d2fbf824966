/** Classes of bytes, as bits. */
const is = { lower: 1, upper: 2, digit: 4, mark: 8, between: 16, suspicious: 32 } as const;

const classes = new Uint8Array(256);
for (let byte = 0; byte < 256; byte++) {
  const letter = String.fromCharCode(byte);
  // Escapes, non-ASCII letters, `@`, `+` and `=` always need the full detectors.
  if (byte >= 128 || "\\%@+=".includes(letter)) classes[byte] = is.suspicious;
  else if (/[a-z]/u.test(letter)) classes[byte] = is.lower;
  else if (/[A-Z]/u.test(letter)) classes[byte] = is.upper;
  else if (/\d/u.test(letter)) classes[byte] = is.digit;
  else if ("_-".includes(letter)) classes[byte] = is.mark;
  else if (" .()".includes(letter)) classes[byte] = is.between;
}

/** Three rare letters of each word in the names of secrets (`secretHints`), and of `blob`, which may hold any file. */
const rareLetters = "ass pwd ecr tok key aut ede kie rer sic tst otp lob".split(" ");
/** Their prefixes, each a state: what the last letters of a text can be. The first state is the empty prefix. */
const states = ["", ...new Set(rareLetters.flatMap((word) => [word.slice(0, 1), word.slice(0, 2)]))];
const found = states.length;
/** The state after a state and a letter, whose case does not matter: 32 for each state. Small, to stay in the cache. */
const nextState = new Uint8Array(states.length * 32);
for (const [state, before] of states.entries()) {
  for (let letter = 1; letter <= 26; letter++) {
    const last = before + String.fromCharCode(96 + letter);
    const longest = [last, last.slice(1), last.slice(2)].find((end) => states.includes(end)) ?? "";
    nextState[state * 32 + letter] = rareLetters.includes(last) ? found : states.indexOf(longest);
  }
}

/** This many digits may be a personal number. */
const shortestNumber = 9;
/** This many letters, digits and marks may be a key or a token. */
const shortestToken = 13;

/**
 * A quick test of JSON text in one pass. True means that it contains no name of a secret and nothing that the detectors
 * of secrets and personal data find; false means that they must look.
 *
 * Needed by bench recorder: "recording on against off".
 */
export function holdsNoSecret(bytes: Uint8Array, start: number, end: number): boolean {
  let state = 0;
  let digits = 0;
  let run = 0;
  for (let at = start; at < end; at++) {
    const byte = bytes[at] ?? 0;
    const own = classes[byte] ?? 0;
    if (own <= is.upper && own !== 0) {
      state = nextState[(state << 5) | (byte & 31)] ?? 0;
      if (state === found) return false;
      run++;
      digits = 0;
      continue;
    }
    if (own === is.suspicious) return false;
    if (own === is.digit) {
      if (++digits === shortestNumber || beginsAccount(bytes, at)) return false;
      state = 0;
      run++;
    } else if (own === is.mark) {
      // Private keys begin with a row of dashes, options of a command line with one behind a space.
      if (byte === 0x2d && (bytes[at - 1] === 0x2d || isOption(bytes, at))) return false;
      if (byte === 0x5f) digits = 0;
      run++;
    } else {
      if (own !== is.between) {
        digits = 0;
        // A name may contain spaces and slashes, so the word continues after them.
        if (byte !== 0x2f) state = 0;
      }
      if (run >= shortestToken && mayBeToken(bytes, at - run, at)) return false;
      run = 0;
    }
  }
  return run < shortestToken || !mayBeToken(bytes, end - run, end);
}

/** Whether `-u` begins here, as in `curl -u name:password`. */
function isOption(bytes: Uint8Array, at: number): boolean {
  return bytes[at + 1] === 0x75 && (bytes[at - 1] === 0x20 || bytes[at - 1] === 0x22);
}

/** Whether an account number begins before `at`: two letters and two digits. */
function beginsAccount(bytes: Uint8Array, at: number): boolean {
  return (
    classes[bytes[at - 1] ?? 0] === is.digit &&
    classes[bytes[at - 2] ?? 0] === is.upper &&
    classes[bytes[at - 3] ?? 0] === is.upper
  );
}

/** Words consist of letters, some of them lower-case. Two kinds of tokens do too, and have a fixed prefix. */
function mayBeToken(bytes: Uint8Array, start: number, end: number): boolean {
  let has = 0;
  for (let at = start; at < end; at++) has |= classes[bytes[at] ?? 0] ?? 0;
  if ((has & (is.digit | is.mark)) !== 0 || (has & is.lower) === 0) return true;
  return (
    (bytes[start] === 0x65 && bytes[start + 1] === 0x79 && bytes[start + 2] === 0x4a) ||
    (bytes[start] === 0x41 && bytes[start + 1] === 0x49)
  );
}
