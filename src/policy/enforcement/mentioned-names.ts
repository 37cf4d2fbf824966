import { slotOf } from "../../protocol/json/outline.ts";
import { memberSource, memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { ListKind } from "../provider/provider.ts";

/** A resource that a result speaks of, and what to take out where it is hidden. */
export interface ResourceMention {
  readonly uri: string;
  /** Of the array element that holds it, from the message's root. */
  readonly path: readonly (string | number)[];
}

/** What is the server's own data, or says nothing to the model. */
const passedOver: ReadonlySet<string> = new Set(["structuredContent", "_meta", "inputSchema", "outputSchema"]);
/** What every block of a resource has in it, unless it is spelled with an escape. */
const mark = Buffer.from('"resource');
const backslash = 0x5c;
const quote = 0x22;
const letterU = 0x75;
const escape = Buffer.from("\\u");
const contentsSlot = slotOf("result.contents");
/** Up to here it is quicker to look at the bytes than to call somebody who looks at many at once. */
const fewBytes = 400;
/** The parser has refused anything deeper. */
const maxDepth = 128;

/**
 * Finds links to resources, embedded resources and the contents of resources in a result, wherever it holds them: the
 * content of a tool's result, the messages of a prompt, a task's result inside its task.
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

/** Whether a result could speak of a resource: most do not, and to search their bytes costs next to nothing. */
export function mayMentionResource({ bytes, outline }: Message): boolean {
  const { start, end, spans } = outline;
  if ((spans[contentsSlot] ?? -1) >= 0) return true;
  if (end - start <= fewBytes) return hasMark(bytes, start, end);
  const region = bytes.subarray(start, end);
  return region.includes(mark) || (region.includes(backslash) && region.includes(escape));
}

/** Looks for the mark or an escape in one go. */
function hasMark(bytes: Uint8Array, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = bytes[at];
    if (byte === backslash && bytes[at + 1] === letterU) return true;
    if (byte !== quote || bytes[at + 1] !== mark[1]) continue;
    let length = 2;
    while (length < mark.length && bytes[at + length] === mark[length]) length++;
    if (length === mark.length) return true;
  }
  return false;
}

type Path = readonly (string | number)[];

/** `element` is the path of the array element that the value stands in. */
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
    if (!passedOver.has(name)) visit(inner, [...path, name], element, mentions);
  }
}

/** The URI of a content block that is a link or an embedded resource (MCP 2025-06-18 and later, Tools). */
function uriOf(block: object): string | undefined {
  const type: unknown = Reflect.get(block, "type");
  const holder: unknown =
    type === "resource_link" ? block : type === "resource" ? Reflect.get(block, "resource") : undefined;
  const uri: unknown = holder === undefined ? undefined : Reflect.get(Object(holder), "uri");
  return typeof uri === "string" ? uri : undefined;
}

/** What a completion is asked for. */
export interface CompletionReference {
  readonly kind: ListKind;
  readonly name: string;
}

/** The prompt, resource or template that a `completion/complete` request names; undefined where it names none. */
export function completionReference(request: Message): CompletionReference | undefined {
  const reference: unknown = Object(memberValue(request, "params.ref"));
  const type: unknown = Reflect.get(Object(reference), "type");
  const key = type === "ref/prompt" ? "name" : "uri";
  const name: unknown = Reflect.get(Object(reference), key);
  if (typeof name !== "string") return undefined;
  if (type === "ref/prompt") return { kind: "prompt", name };
  return { kind: name.includes("{") ? "resource-template" : "resource", name };
}

/** One completed value and the resource that the template makes of it. */
export interface CompletedUri {
  readonly index: number;
  readonly uri: string;
}

/**
 * The resources that the values of a completion lead to, where the template is whole with them. Values of a template
 * that still lacks something name no resource yet.
 */
export function completedResourceUris(request: RequestMessage, answer: Message): readonly CompletedUri[] {
  const reference = completionReference(request);
  const values: unknown = Reflect.get(Object(memberValue(answer, "result.completion")), "values");
  if (reference?.kind !== "resource-template" || !Array.isArray(values)) return [];
  const params: unknown = memberValue(request, "params");
  const argument: unknown = Reflect.get(Object(Reflect.get(Object(params), "argument")), "name");
  const context: unknown = Reflect.get(Object(Reflect.get(Object(params), "context")), "arguments");
  if (typeof argument !== "string") return [];
  return values.flatMap((value, index) => {
    if (typeof value !== "string") return [];
    const uri = expand(reference.name, { ...Object(context), [argument]: value });
    return uri === undefined ? [] : [{ index, uri }];
  });
}

const templateExpression = /\{([+#./;?&]?)([^{}:*]+)(?::\d+|\*)?\}/gu;

/** RFC 6570 for one variable an expression, which is what templates of resources have; undefined if one is missing. */
function expand(template: string, values: Readonly<Record<string, unknown>>): string | undefined {
  let isWhole = true;
  const uri = template.replace(templateExpression, (_, operator: string, name: string) => {
    const value = values[name];
    if (typeof value !== "string") {
      isWhole = false;
      return "";
    }
    const encoded = operator === "+" || operator === "#" ? encodeURI(value) : encodeURIComponent(value);
    switch (operator) {
      case "":
      case "+":
        return encoded;
      case ";":
      case "?":
      case "&":
        return `${operator}${name}=${encoded}`;
      default:
        return `${operator}${encoded}`;
    }
  });
  return isWhole ? uri : undefined;
}
