import { slotOf } from "../../protocol/json/outline.ts";
import { memberSource, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import { completionReference } from "../provider/provider.ts";

type Path = readonly (string | number)[];

/** A resource that a message mentions. */
export interface ResourceMention {
  readonly uri: string;
  /** The array element to remove if the resource is hidden. */
  readonly path: Path;
}

/** Members with the server's own data, which have no content blocks. */
const skippedMembers: ReadonlySet<string> = new Set(["structuredContent", "_meta", "inputSchema", "outputSchema"]);
/** Every content block with a resource has this, unless it is escaped. */
const marker = Buffer.from('"resource');
const escape = Buffer.from("\\u");
const contentsSlot = slotOf("result.contents");
/** The parser refuses deeper messages. */
const maxDepth = 128;

/**
 * Finds resource links, embedded resources and resource contents anywhere in a message: tool results, prompt messages,
 * the result inside a task.
 */
export function resourceMentions(message: Message): readonly ResourceMention[] {
  if (!mayMentionResource(message)) return [];
  const member = message.kind === "result" ? "result" : "params";
  const source = memberSource(message, member);
  if (source === undefined) return [];
  const mentions: ResourceMention[] = [];
  visit(JSON.parse(source), [member], undefined, mentions);
  return mentions;
}

/** A quick test on the bytes that rules most messages out. */
export function mayMentionResource({ bytes, outline }: Message): boolean {
  const { start, end, spans } = outline;
  if ((spans[contentsSlot] ?? -1) >= 0) return true;
  const region = bytes.subarray(start, end);
  return region.includes(marker) || region.includes(escape);
}

/** `element` is the path of the array element that contains the value. */
function visit(value: unknown, path: Path, element: Path | undefined, mentions: ResourceMention[]): void {
  if (typeof value !== "object" || value === null || path.length > maxDepth) return;
  if (Array.isArray(value)) {
    const isContents = path.at(-1) === "contents";
    for (const [index, one] of value.entries()) {
      const at = [...path, index];
      const uri: unknown = isContents ? Reflect.get(Object(one), "uri") : undefined;
      if (typeof uri === "string") mentions.push({ uri, path: at });
      else visit(one, at, at, mentions);
    }
    return;
  }
  const uri = uriOf(value);
  if (uri !== undefined && element !== undefined) {
    mentions.push({ uri, path: element });
    return;
  }
  for (const [name, inner] of Object.entries(value)) {
    if (!skippedMembers.has(name)) visit(inner, [...path, name], element, mentions);
  }
}

/** The URI of a resource link or embedded resource (MCP 2025-06-18 and later, Tools). */
function uriOf(block: object): string | undefined {
  const type: unknown = Reflect.get(block, "type");
  const holder: unknown =
    type === "resource_link" ? block : type === "resource" ? Reflect.get(block, "resource") : undefined;
  const uri: unknown = Reflect.get(Object(holder), "uri");
  return typeof uri === "string" ? uri : undefined;
}

/** The resources that completed values lead to, if they complete the URI template. */
export function completedResources(request: RequestMessage, result: Message): readonly ResourceMention[] {
  const reference = completionReference(request);
  const values: unknown = Reflect.get(Object(memberValue(result, "result.completion")), "values");
  if (reference?.kind !== "resource" || !isUriTemplate(reference.name) || !Array.isArray(values)) return [];
  const params: unknown = memberValue(request, "params");
  const argument: unknown = Reflect.get(Object(Reflect.get(Object(params), "argument")), "name");
  const context: unknown = Reflect.get(Object(Reflect.get(Object(params), "context")), "arguments");
  if (typeof argument !== "string") return [];
  return values.flatMap((value, index) => {
    if (typeof value !== "string") return [];
    const uri = expandUriTemplate(reference.name, { ...Object(context), [argument]: value });
    return uri === undefined ? [] : [{ uri, path: ["result", "completion", "values", index] }];
  });
}

export function isUriTemplate(uri: string): boolean {
  return uri.includes("{");
}

/** How an expression is written out (RFC 6570, appendix A). */
interface Expansion {
  readonly first: string;
  readonly separator: string;
  readonly isNamed: boolean;
}

const expansions: Readonly<Record<string, Expansion>> = {
  "": { first: "", separator: ",", isNamed: false },
  "+": { first: "", separator: ",", isNamed: false },
  "#": { first: "#", separator: ",", isNamed: false },
  ".": { first: ".", separator: ".", isNamed: false },
  "/": { first: "/", separator: "/", isNamed: false },
  ";": { first: ";", separator: ";", isNamed: true },
  "?": { first: "?", separator: "&", isNamed: true },
  "&": { first: "&", separator: "&", isNamed: true },
};

const templateExpression = /\{([+#./;?&]?)([^{}]*)\}/gu;

/** Expressions that are often left out, such as a query; others are steps of the path, without which a URI is another one. */
const optional = "?&;.#";

/** RFC 6570 for texts; undefined if a variable of the path is missing. */
function expandUriTemplate(template: string, values: Readonly<Record<string, unknown>>): string | undefined {
  let isComplete = true;
  const uri = template.replace(templateExpression, (_, operator: string, variables: string) => {
    const { first, separator, isNamed } = expansions[operator] ?? { first: "", separator: ",", isNamed: false };
    const parts = variables.split(",").flatMap((variable) => {
      const [, name = "", length] = /^([^:*]*)(?::(\d+)|\*)?$/u.exec(variable) ?? [];
      const value = Object.hasOwn(values, name) ? values[name] : undefined;
      if (typeof value !== "string") {
        isComplete &&= operator !== "" && optional.includes(operator);
        return [];
      }
      const text = length === undefined ? value : Array.from(value).slice(0, Number(length)).join("");
      const encoded =
        operator === "+" || operator === "#" ? encodeURI(text.toWellFormed()) : encodeURIComponent(text.toWellFormed());
      return [isNamed ? `${name}=${encoded}` : encoded];
    });
    return parts.length === 0 ? "" : first + parts.join(separator);
  });
  return isComplete ? uri : undefined;
}
