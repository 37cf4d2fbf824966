import type { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { type MemberName, type Span, spanOf } from "../../protocol/json/outline.ts";
import { decodeString, elementsOf, membersOf, typeAt } from "../../protocol/json/read.ts";
import type { Replacement } from "../../protocol/json/edit.ts";
import type { Message, ParseLimits } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import type { ListEntry, ListKind } from "../provider/provider.ts";
import { replaceMember, spliceMessage } from "./message-edit.ts";
import { andThen, type CheckOutcome, type Evaluator, type MaybePromise } from "./evaluator.ts";

/** Where a list stands in the answer to a method, and what its entries are called by. */
interface ListFacts {
  readonly member: MemberName;
  readonly kind: ListKind;
  readonly name: "name" | "uri" | "uriTemplate";
}

const lists: ReadonlyMap<string, ListFacts> = new Map<string, ListFacts>([
  ["tools/list", { member: "result.tools", kind: "tool", name: "name" }],
  ["prompts/list", { member: "result.prompts", kind: "prompt", name: "name" }],
  ["resources/list", { member: "result.resources", kind: "resource", name: "uri" }],
  ["resources/templates/list", { member: "result.resourceTemplates", kind: "resource-template", name: "uriTemplate" }],
]);

/** Whether answers to a method hold names that somebody may not know of. */
export function isListMethod(method: string | undefined): boolean {
  return method !== undefined && lists.has(method);
}

/**
 * Takes the entries out of a page that the caller may not know of. Everything else stays byte for byte, the cursor
 * included: an emptied page still leads to the next one.
 */
export function filterListPage(subject: InspectedMessage, judge: Evaluator): MaybePromise<CheckOutcome> {
  const { message, method } = subject;
  const facts = lists.get(method ?? "");
  const span = facts === undefined ? undefined : spanOf(message.outline, facts.member);
  if (facts === undefined || span === undefined || typeAt(message.bytes, span.start) !== "array") {
    return pass(message);
  }
  const { bytes } = message;
  const elements = [...elementsOf(bytes, span)];
  const entries = elements.flatMap((element) => {
    const name = nameIn(bytes, element, facts.name);
    return name === undefined ? [] : [new Entry(bytes, element, name)];
  });
  return andThen(judge.checkVisibility(subject, facts.kind, entries), (sight) => {
    if (sight.type === "refuse") return sight;
    const { visible } = sight;
    if (entries.length === elements.length && visible.every(Boolean)) return pass(message);
    // An entry without a name cannot be judged, and nobody could ask for it: it is not shown either.
    const shown = entries.filter((_, index) => visible[index] === true);
    return pass(replaceMember(message, span, listOf(bytes, shown)));
  });
}

/** What filters made of an answer depends on who asked: nobody else's cache may keep it (MCP 2026-07-28, Caching). */
export function withPrivateCache(
  subject: InspectedMessage,
  message: Message,
  limits: ParseLimits | undefined,
): Message {
  const { exchange, method } = subject;
  if (exchange.era !== "modern" || method === undefined || methodFacts(method)?.cacheable !== true) return message;
  const span = spanOf(message.outline, "result.cacheScope");
  if (span === undefined || message.bytes.toString("latin1", span.start, span.end) === privateScope) return message;
  const scope: Replacement = { span, bytes: Buffer.from(privateScope) };
  return spliceMessage(message, [scope], exchange, limits) ?? message;
}

const privateScope = '"private"';
const comma = Buffer.from(",");

/** The text of an array with these entries, each byte for byte. */
function listOf(bytes: Buffer, entries: readonly Entry[]): Buffer {
  const parts: Buffer[] = [Buffer.from("[")];
  for (const { span } of entries) {
    if (parts.length > 1) parts.push(comma);
    parts.push(bytes.subarray(span.start, span.end));
  }
  parts.push(Buffer.from("]"));
  return Buffer.concat(parts);
}

function pass(message: Message): CheckOutcome {
  return { type: "pass", message, memory: undefined };
}

/** An entry of a list. A class: most rules ask for the name alone, and then nothing else is read. */
class Entry implements ListEntry {
  readonly name: string;
  readonly span: Span;
  readonly #bytes: Buffer;
  #value: Readonly<Record<string, unknown>> | undefined;

  constructor(bytes: Buffer, span: Span, name: string) {
    this.#bytes = bytes;
    this.span = span;
    this.name = name;
  }

  get value(): Readonly<Record<string, unknown>> {
    // It has a name, so it is an object.
    return (this.#value ??= JSON.parse(this.#bytes.toString("utf8", this.span.start, this.span.end)) as Readonly<
      Record<string, unknown>
    >);
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
