import type { Message, RequestId } from "../message.ts";

/** What a label is about: a message with an id, a notification, or an event without a message. */
export type LabelSubject =
  | { readonly kind: "id"; readonly key: RequestId["key"] }
  | { readonly kind: "notification" }
  | { readonly kind: "raw" };

/** The parts of a correlation label. */
export interface LabelParts {
  readonly session: string;
  /** Eight lower-case hex digits that name the process. */
  readonly node: string;
  readonly subject: LabelSubject;
  /** Increases by one with each label of the process. */
  readonly counter: number;
  /** Numbers the requests that the gateway sends because of this message, such as those to several servers. */
  readonly caused?: number;
}

/** The parts of a label, or why the text is not a label. */
export type LabelDecoding =
  | { readonly ok: true; readonly parts: LabelParts }
  | { readonly ok: false; readonly part: "label" | "session" | "node" | "id" | "counter"; readonly message: string };

/** Labels the messages that pass through this process. */
export interface Labeler {
  /** The next label. */
  label(session: string, subject: LabelSubject): string;
  /** What all labels of a session begin with. */
  startOf(session: string): string;
  /** The next label, for a message of the session with this start. Much faster than `label`, for every message. */
  labelMessage(start: string, message: Pick<Message, "id" | "kind">): string;
}

/** The session part of labels where there is no session. */
export const noSession = "none";

/** What a labeler is made with. */
export interface LabelerOptions {
  /** Eight lower-case hex digits. */
  readonly node: string;
  /** Redacts ids of messages, which a sender may choose freely; short numbers are not shown to it. */
  readonly redact?: (text: string) => string;
}

/** Makes a labeler that counts from 1. Throws a RangeError unless `node` is eight lower-case hex digits. */
export function createLabeler({ node, redact = String }: LabelerOptions): Labeler {
  if (!isNode(node)) throw new RangeError(`node must be eight lower-case hex digits, not "${node}"`);
  let counter = 0;
  return {
    label(session, subject) {
      counter += 1;
      return encodeLabel({ session, node, subject, counter });
    },
    startOf: (session) => `${escapePart(session)}-${node}-`,
    labelMessage(start, { id, kind }) {
      counter += 1;
      if (id === undefined) return `${start}${kind === "notification" ? "notif" : "raw"}-${counter}`;
      const subject = shortNumber.test(id.key) ? `n.${id.key.slice(2)}` : encodeSubject(boundedSubject(id.key, redact));
      return `${start}${subject}-${counter}`;
    },
  };
}

/**
 * Writes `{session}-{node}-{json_rpc_id}-{counter}`. A label has exactly three dashes: everything but letters, digits,
 * `_`, `.` and `~` is escaped as `%XX` for each UTF-8 byte, a lone surrogate as `%uXXXX`.
 * Ids start with their type, as in `n.7` and `s.abc`, so that none can look like `notif` or `raw`.
 * The label of a request that a message caused ends in `.` and its number.
 */
export function encodeLabel({ session, node, subject, counter, caused }: LabelParts): string {
  const label = `${escapePart(session)}-${node}-${encodeSubject(subject)}-${counter}`;
  return caused === undefined ? label : causedLabel(label, caused);
}

/** The label of a request that the gateway sends because of a message. */
export function causedLabel(label: string, number: number): string {
  return `${label}.${number}`;
}

/** Reads a label; fails for any text that `encodeLabel` would not write. */
export function decodeLabel(label: string): LabelDecoding {
  const [session, node, subject, counter, ...more] = label.split("-");
  if (
    session === undefined ||
    node === undefined ||
    subject === undefined ||
    counter === undefined ||
    more.length > 0
  ) {
    return invalid("label", "a label has four parts separated by dashes");
  }
  const sessionText = unescapePart(session);
  if (sessionText === undefined) return invalid("session", "the session is not escaped correctly");
  if (!isNode(node)) return invalid("node", "the node must be eight lower-case hex digits");
  const about = decodeSubject(subject);
  if (about === undefined)
    return invalid("id", "the id must be notif, raw, n. with a number or s. with an escaped string");
  const [count, caused, ...deeper] = counter.split(".").map(parseCount);
  if (count === undefined || deeper.length > 0 || (caused === undefined && counter.includes("."))) {
    return invalid("counter", "the counter must be a positive integer, or two with a dot between them");
  }
  const parts = { session: sessionText, node, subject: about, counter: count };
  return { ok: true, parts: caused === undefined ? parts : { ...parts, caused } };
}

function parseCount(text: string): number | undefined {
  const count = Number(text);
  return /^[1-9][0-9]*$/.test(text) && Number.isSafeInteger(count) ? count : undefined;
}

function encodeSubject(subject: LabelSubject): string {
  if (subject.kind === "notification") return "notif";
  if (subject.kind === "raw") return "raw";
  return `${subject.key.charAt(0)}.${escapePart(subject.key.slice(2))}`;
}

function decodeSubject(text: string): LabelSubject | undefined {
  if (text === "notif") return { kind: "notification" };
  if (text === "raw") return { kind: "raw" };
  const value = unescapePart(text.slice(2));
  if (value === undefined) return undefined;
  if (text.startsWith("s.")) return { kind: "id", key: `s:${value}` };
  return text.startsWith("n.") && number.test(value) ? { kind: "id", key: `n:${value}` } : undefined;
}

/** The key of an id that needs neither escaping nor redaction: it is too short for a card number and the like. */
const shortNumber = /^n:\d{1,12}$/;

/** Longer ids of messages are cut in labels. */
const longestId = 64;

/** The subject of a message with an id that its sender chose: without secrets, and not longer than is useful. */
function boundedSubject(key: RequestId["key"], redact: (text: string) => string): LabelSubject {
  // Cut twice: half a secret at the end would not be recognized.
  const text = key.slice(2, 2 + 2 * longestId);
  const clean = redact(text).slice(0, longestId);
  return { kind: "id", key: clean === text && key.startsWith("n:") ? `n:${clean}` : `s:${clean}` };
}

/** The key of a number; observe mode allows fractions. */
const number = /^-?\d[\d.e-]*$/;

/** A character to escape: everything that a shell, a URL or a filter might read as something else. */
const special = /[^\w.~]/gu;

function escapePart(text: string): string {
  return text.replace(special, (character) => {
    if (!character.isWellFormed()) return `%u${hex(character.charCodeAt(0), 4)}`;
    let escaped = "";
    for (const byte of Buffer.from(character)) escaped += `%${hex(byte, 2)}`;
    return escaped;
  });
}

/** Undefined unless escaping the result gives `text` again, so that each part has one encoding. */
function unescapePart(text: string): string | undefined {
  if (!text.includes("%")) return escapePart(text) === text ? text : undefined;
  const plain = text.replaceAll(/%u([0-9A-F]{4})|(?:%[0-9A-F]{2})+/g, (escaped, unit: string | undefined) =>
    unit === undefined
      ? Buffer.from(escaped.replaceAll("%", ""), "hex").toString("utf8")
      : String.fromCharCode(Number.parseInt(unit, 16)),
  );
  return escapePart(plain) === text ? plain : undefined;
}

function hex(value: number, digits: number): string {
  return value.toString(16).toUpperCase().padStart(digits, "0");
}

function isNode(node: string): boolean {
  return /^[0-9a-f]{8}$/.test(node);
}

function invalid(part: "label" | "session" | "node" | "id" | "counter", message: string): LabelDecoding {
  return { ok: false, part, message };
}
