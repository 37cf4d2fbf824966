import type { ExchangeRecord } from "../../../../src/recorder/contract.ts";

const sentences: Readonly<Record<string, (target: string) => string>> = {
  initialize: () => "Connected",
  "server/discover": () => "Asked what the server can do",
  "tools/list": () => "Looked at the tools",
  "tools/call": (target) => `Used the tool ${target}`,
  "resources/list": () => "Looked at the resources",
  "resources/templates/list": () => "Looked at the resource templates",
  "resources/read": (target) => `Read ${target}`,
  "resources/subscribe": (target) => `Follows ${target}`,
  "prompts/list": () => "Looked at the prompts",
  "prompts/get": (target) => `Took the prompt ${target}`,
  "elicitation/create": () => "The server asked the user a question",
  "sampling/createMessage": () => "The server asked for a model's answer",
  "roots/list": () => "The server asked for the client's folders",
};

/** What an exchange was, as a person would say it. */
export function sentenceOf({ method, target }: Pick<ExchangeRecord, "method" | "target">): string {
  return sentences[method]?.(target ?? "") ?? (target === undefined ? method : `${method} ${target}`);
}

interface Answer {
  readonly result?: {
    readonly content?: unknown;
    readonly contents?: unknown;
    readonly tools?: unknown;
    readonly resources?: unknown;
    readonly prompts?: unknown;
    readonly serverInfo?: { readonly name?: unknown; readonly title?: unknown };
    readonly action?: unknown;
  };
  readonly error?: { readonly message?: unknown };
}

/** What was answered, as text: of results the texts in them, of lists how many there are. */
export function textOf({ state }: Pick<ExchangeRecord, "state">, answer: unknown): string {
  if (typeof answer !== "object" || answer === null) return state === "open" ? "still running" : "";
  const { result, error } = answer as Answer;
  if (error !== undefined) return typeof error.message === "string" ? error.message : "";
  if (typeof result !== "object" || result === null) return "";
  if (Array.isArray(result.content)) return result.content.map(partText).join("\n");
  if (Array.isArray(result.contents)) return result.contents.map(partText).join("\n");
  for (const kind of ["tools", "resources", "prompts"] as const) {
    const list = result[kind];
    if (Array.isArray(list)) return `${list.length} ${kind}`;
  }
  const name = result.serverInfo?.title ?? result.serverInfo?.name;
  if (typeof name === "string") return `to ${name}`;
  return typeof result.action === "string" ? `The user chose to ${result.action}` : "";
}

function partText(part: unknown): string {
  const { type, text, mimeType, uri } = (part ?? {}) as Readonly<Record<string, unknown>>;
  if (typeof text === "string") return text;
  const kind = typeof type === "string" ? type : "data";
  const what = typeof mimeType === "string" ? `${kind}, ${mimeType}` : kind;
  return typeof uri === "string" ? `[${what}: ${uri}]` : `[${what}]`;
}
