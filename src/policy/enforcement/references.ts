import { memberValue } from "../../protocol/json/read.ts";
import type { Message, RequestMessage } from "../../protocol/message.ts";
import type { ListKind } from "../provider.ts";

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
