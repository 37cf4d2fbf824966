import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { isObject } from "../../lib/is-object.ts";
import { andThen, type MaybePromise } from "../../lib/is-promise.ts";
import { editObject, replaceMember, type Replacement, splice } from "../../protocol/json/edit.ts";
import { type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, findMember, memberSource, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { listShapeOf, type ListShape, type ListKind } from "../../protocol/lists.ts";
import type { ListEntry } from "../provider/provider.ts";
import { canonicalUri } from "../provider/canonical-uri.ts";
import type { CheckOutcome, Evaluator, Visibility } from "./evaluator.ts";

/**
 * Removes the entries of a page that the caller cannot see. Everything else stays byte for byte, including the cursor: an
 * empty page still leads to the next one.
 */
export function filterListPage(subject: InspectedMessage, evaluator: Evaluator): MaybePromise<CheckOutcome> {
  const { message, method } = subject;
  const { bytes } = message;
  const unchanged: CheckOutcome = { type: "pass", message, memory: undefined };
  const facts = listShapeOf(method);
  const span = facts === undefined ? undefined : spanOf(message.outline, `result.${facts.member}`);
  if (facts === undefined || span === undefined || typeAt(bytes, span.start) !== "array") return unchanged;
  const entries: Entry[] = [];
  let elements = 0;
  for (const element of elementsOf(bytes, span)) {
    elements++;
    const name = nameIn(bytes, element, facts.key);
    if (name !== undefined) entries.push(new Entry(bytes, element, name));
  }
  return andThen(checkEntries(subject, evaluator, facts.kind, entries), (visibility) => {
    if (visibility.type === "refuse") return visibility;
    const { visible } = visibility;
    // An entry without a name can be neither evaluated nor called, so it is removed as well.
    const isWhole = entries.length === elements && visible.every(Boolean);
    const shown = isWhole ? entries : entries.filter((_, index) => visible[index] === true);
    const notes = evaluator.filtersLists ? notesIn(message, shown) : undefined;
    if (isWhole && notes === undefined) return unchanged;
    const changes = [
      ...(isWhole ? [] : [{ span, bytes: arrayOf(bytes, shown) }]),
      ...(notes === undefined ? [] : [notes]),
    ];
    return evaluator.change(subject, { bytes: splice(bytes, message.outline, changes) });
  });
}

/** A JSON array of elements as they are. */
function arrayOf(bytes: Buffer, elements: readonly Entry[]): Buffer {
  if (elements.length === 0) return Buffer.from("[]");
  const length = elements.reduce((sum, { span }) => sum + span.end - span.start + 1, 1);
  const json = Buffer.allocUnsafe(length);
  let at = 0;
  for (const { span } of elements) {
    at = json.writeUInt8(at === 0 ? openingBracket : comma, at);
    at += bytes.copy(json, at, span.start, span.end);
  }
  json.writeUInt8(closingBracket, at);
  return json;
}

const openingBracket = 0x5b;
const comma = 0x2c;
const closingBracket = 0x5d;

/**
 * What a list of several servers says in `_meta` about names, for the entries that are shown: a name that is only
 * mentioned there would leak. Clashing names do not resolve to anything, so no rule can decide whether the caller may
 * know them.
 */
function notesIn({ bytes, outline }: Message, shown: readonly ListEntry[]): Replacement | undefined {
  const span = spanOf(outline, "result._meta");
  if (span === undefined || typeAt(bytes, span.start) !== "object") return undefined;
  if (![...membersOf(bytes, span)].some(({ name }) => name === cutNames || name === clashes)) return undefined;
  const names = new Set(shown.map(({ name }) => name));
  const edited = editObject(bytes, span, (member, value) => {
    if (member === clashes) return "remove";
    if (member !== cutNames) return "keep";
    const cut = JSON.parse(bytes.toString("utf8", value.start, value.end)) as unknown;
    const known = Object.entries(isObject(cut) ? cut : {}).filter(([name]) => names.has(name));
    return known.length === 0 ? "remove" : { json: JSON.stringify(Object.fromEntries(known)) };
  });
  return { span, bytes: edited };
}

const cutNames = "headgate/cut";
const clashes = "headgate/clashes";

/** A resource that the server lists in another spelling is visible only if its canonical URI is as well. */
function checkEntries(
  subject: InspectedMessage,
  evaluator: Evaluator,
  kind: ListKind,
  entries: readonly ListEntry[],
): MaybePromise<Visibility> {
  const outcome = evaluator.checkVisibility(subject, kind, entries);
  if (kind !== "resource" || !evaluator.filtersLists) return outcome;
  const others = entries.flatMap((entry, index) => {
    const uri = canonicalUri(entry.name);
    return uri === undefined || uri === entry.name ? [] : [{ index, name: uri, value: { ...entry.value, uri } }];
  });
  if (others.length === 0) return outcome;
  return andThen(outcome, (visibility) => {
    if (visibility.type === "refuse") return visibility;
    return andThen(evaluator.checkVisibility(subject, kind, others), (canonical): Visibility => {
      if (canonical.type === "refuse") return canonical;
      const hidden = new Set(others.filter((_, at) => canonical.visible[at] !== true).map(({ index }) => index));
      return { type: "visible", visible: visibility.visible.map((isVisible, at) => isVisible && !hidden.has(at)) };
    });
  });
}

/**
 * The message, marked as private if it is cacheable: filtered results depend on the caller, so shared caches must not
 * store them (MCP 2026-07-28, Caching).
 */
export function withPrivateCache(subject: InspectedMessage, evaluator: Evaluator): Message {
  const { exchange, method, message } = subject;
  if (exchange.era !== "modern" || method === undefined || methodFacts(method)?.cacheable !== true) return message;
  if (memberSource(message, "result.cacheScope") === privateScope) return message;
  const bytes = replaceMember(message, "result.cacheScope", privateScope);
  const outcome = bytes === undefined ? undefined : evaluator.change(subject, { bytes });
  return outcome?.type === "pass" ? outcome.message : message;
}

const privateScope = '"private"';

/** A class, so that an entry is parsed only if a rule reads more than its name. */
class Entry implements ListEntry {
  readonly name: string;
  readonly span: Span;
  readonly #bytes: Buffer;
  #value: ListEntry["value"] | undefined;

  constructor(bytes: Buffer, span: Span, name: string) {
    this.#bytes = bytes;
    this.span = span;
    this.name = name;
  }

  get value(): ListEntry["value"] {
    // It has a name, so it is an object.
    return (this.#value ??= JSON.parse(
      this.#bytes.toString("utf8", this.span.start, this.span.end),
    ) as ListEntry["value"]);
  }
}

function nameIn(bytes: Buffer, element: Span, key: ListShape["key"]): string | undefined {
  const value = typeAt(bytes, element.start) === "object" ? findMember(bytes, element, key) : undefined;
  if (value === undefined || typeAt(bytes, value.start) !== "string") return undefined;
  return decodeString(bytes, value.start, value.end);
}
