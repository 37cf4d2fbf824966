import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { andThen, type MaybePromise } from "../../lib/is-promise.ts";
import { replaceMember, splice } from "../../protocol/json/edit.ts";
import { type MemberName, type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, memberSource, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { ListEntry, ListKind } from "../provider/provider.ts";
import { canonicalUri } from "../provider/canonical-uri.ts";
import type { CheckOutcome, Evaluator, Visibility } from "./evaluator.ts";

/** Where a list is in a result, and which member names an entry. */
interface ListFacts {
  readonly member: MemberName;
  readonly kind: ListKind;
  readonly name: "name" | "uri" | "uriTemplate";
}

const lists: ReadonlyMap<string | undefined, ListFacts> = new Map<string, ListFacts>([
  ["tools/list", { member: "result.tools", kind: "tool", name: "name" }],
  ["prompts/list", { member: "result.prompts", kind: "prompt", name: "name" }],
  ["resources/list", { member: "result.resources", kind: "resource", name: "uri" }],
  ["resources/templates/list", { member: "result.resourceTemplates", kind: "resource-template", name: "uriTemplate" }],
]);

export function isListMethod(method: string | undefined): boolean {
  return lists.has(method);
}

/**
 * Removes the entries of a page that the caller cannot see. Everything else stays byte for byte, including the cursor: an
 * empty page still leads to the next one.
 */
export function filterListPage(subject: InspectedMessage, evaluator: Evaluator): MaybePromise<CheckOutcome> {
  const { message, method } = subject;
  const { bytes } = message;
  const unchanged: CheckOutcome = { type: "pass", message, memory: undefined };
  const facts = lists.get(method);
  const span = facts === undefined ? undefined : spanOf(message.outline, facts.member);
  if (facts === undefined || span === undefined || typeAt(bytes, span.start) !== "array") return unchanged;
  const elements = [...elementsOf(bytes, span)];
  const entries = elements.flatMap((element) => {
    const name = nameIn(bytes, element, facts.name);
    return name === undefined ? [] : [new Entry(bytes, element, name)];
  });
  return andThen(checkEntries(subject, evaluator, facts.kind, entries), (visibility) => {
    if (visibility.type === "refuse") return visibility;
    const { visible } = visibility;
    if (entries.length === elements.length && visible.every(Boolean)) return unchanged;
    // An entry without a name can be neither evaluated nor called, so it is removed as well.
    const shown = entries.filter((_, index) => visible[index] === true);
    const texts = shown.map((entry) => bytes.toString("utf8", entry.span.start, entry.span.end));
    const json = Buffer.from(`[${texts.join(",")}]`);
    return evaluator.change(subject, { bytes: splice(bytes, message.outline, [{ span, bytes: json }]) });
  });
}

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

function nameIn(bytes: Buffer, element: Span, key: ListFacts["name"]): string | undefined {
  if (typeAt(bytes, element.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, element)) {
    if (name !== key) continue;
    return typeAt(bytes, value.start) === "string" ? decodeString(bytes, value.start, value.end) : undefined;
  }
  return undefined;
}
