import type { RequestId } from "../message.ts";

/** What a label is about: a message with an id, a notification, or an event that holds no message. */
export type LabelSubject =
  | { readonly kind: "id"; readonly key: RequestId["key"] }
  | { readonly kind: "notification" }
  | { readonly kind: "raw" };

/** The four parts of a correlation label. */
export interface LabelParts {
  readonly session: string;
  /** Eight lower-case hex digits that name the process. */
  readonly node: string;
  readonly subject: LabelSubject;
  /** Rises by one with each label of the process. */
  readonly counter: number;
}

/** The parts of a label, or why the text is none. */
export type LabelDecoding =
  | { readonly ok: true; readonly parts: LabelParts }
  | {
      readonly ok: false;
      readonly part: "label" | "session" | "node" | "id" | "counter";
      readonly message: string;
    };

/** Gives labels to all that passes through this process. */
export interface Labeler {
  /** The next label; its counter is one above the last. */
  label(session: string, subject: LabelSubject): string;
}

/** Makes a labeler that counts from 1. Throws a RangeError unless `node` is eight lower-case hex digits. */
export function createLabeler(options: { readonly node: string }): Labeler {
  const { node } = options;
  if (!isNode(node)) throw new RangeError(`node must be eight lower-case hex digits, not "${node}"`);
  let counter = 0;
  return {
    label(session, subject) {
      counter += 1;
      return encodeLabel({ session, node, subject, counter });
    },
  };
}

/**
 * Writes `{session}-{node}-{json_rpc_id}-{counter}`. Every part but the node is escaped, so that a label is printable
 * ASCII with exactly three dashes: `%XX` for each UTF-8 byte of what is not printable ASCII and for `%`, `-` and space,
 * and `%uXXXX` for a lone surrogate, which UTF-8 cannot say. Ids carry their type, as `n.7` and `s.abc`, so no id can
 * look like `notif` or `raw`.
 */
export function encodeLabel(parts: LabelParts): string {
  return `${escapePart(parts.session)}-${parts.node}-${encodeSubject(parts.subject)}-${parts.counter}`;
}

/** Reads a label back exactly; any text that `encodeLabel` would not have written is refused. */
export function decodeLabel(label: string): LabelDecoding {
  const [session, node, subject, counter, ...more] = label.split("-");
  if (
    session === undefined ||
    node === undefined ||
    subject === undefined ||
    counter === undefined ||
    more.length > 0
  ) {
    return refuse("label", "a label has four parts between three dashes");
  }
  const sessionText = unescapePart(session);
  if (sessionText === undefined) return refuse("session", "the session is not escaped as labels are");
  if (!isNode(node)) return refuse("node", "the node is not eight lower-case hex digits");
  const about = decodeSubject(subject);
  if (about === undefined) return refuse("id", "the id is not notif, raw, n. with a number or s. with an escaped text");
  const count = Number(counter);
  if (!/^[1-9][0-9]*$/.test(counter) || !Number.isSafeInteger(count)) {
    return refuse("counter", "the counter is not a whole number from 1 on");
  }
  return { ok: true, parts: { session: sessionText, node, subject: about, counter: count } };
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

/** What the key of a number may look like, a fraction that was let pass included. */
const number = /^-?\d[\d.e-]*$/;

/** One character outside printable ASCII, or one that has a meaning in a label. */
const special = /[^!-$&-,.-~]/gu;

function escapePart(text: string): string {
  return text.replace(special, (character) => {
    if (!character.isWellFormed()) return `%u${hex(character.charCodeAt(0), 4)}`;
    let escaped = "";
    for (const byte of Buffer.from(character)) escaped += `%${hex(byte, 2)}`;
    return escaped;
  });
}

/** Undefined unless escaping the result gives `text` again, which leaves one spelling for each part. */
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

function refuse(part: "label" | "session" | "node" | "id" | "counter", message: string): LabelDecoding {
  return { ok: false, part, message };
}
