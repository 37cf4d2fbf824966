import { asObject } from "../../lib/is-object.ts";

const sentences: ReadonlyMap<string, (target: string) => string> = new Map<string, (target: string) => string>([
  ["initialize", () => "Connected"],
  ["server/discover", () => "Asked what the server can do"],
  ["tools/list", () => "Looked at the tools"],
  ["tools/call", (target) => `Used the tool ${target}`],
  ["resources/list", () => "Looked at the resources"],
  ["resources/templates/list", () => "Looked at the resource templates"],
  ["resources/read", (target) => `Read ${target}`],
  ["resources/subscribe", (target) => `Subscribed to ${target}`],
  ["resources/unsubscribe", (target) => `Unsubscribed from ${target}`],
  ["subscriptions/listen", () => "Waits for changes"],
  ["prompts/list", () => "Looked at the prompts"],
  ["prompts/get", (target) => `Got the prompt ${target}`],
  ["elicitation/create", () => "The server asked the user a question"],
  ["sampling/createMessage", () => "The server asked for a model's answer"],
  ["roots/list", () => "The server asked for the client's folders"],
]);

/** What a request was, as a person would say it. */
export function sentenceOf(method: string, target: string | undefined): string {
  return sentences.get(method)?.(target ?? "") ?? (target === undefined ? method : `${method} ${target}`);
}

/** What a question of the server says. */
export function questionText(params: unknown): string {
  const { message, messages } = asObject(params) ?? {};
  if (typeof message === "string") return message;
  return Array.isArray(messages) ? messages.map((one) => contentText(asObject(one)?.["content"])).join("\n") : "";
}

/** What a response says, as text: of results the texts in them, of lists how many entries there are. */
export function answerText(response: unknown): string {
  const { result, error } = asObject(response) ?? {};
  if (error === undefined) return resultText(result);
  const message = asObject(error)?.["message"];
  return typeof message === "string" ? message : "";
}

/** The lists of results, and what one entry is called. */
const lists = [
  ["tools", "tool"],
  ["resources", "resource"],
  ["resourceTemplates", "resource template"],
  ["prompts", "prompt"],
  ["roots", "folder"],
] as const;

/** {@link answerText} of a result alone. */
export function resultText(value: unknown): string {
  const result = asObject(value) ?? {};
  const said = result["content"] ?? result["contents"];
  // The content of an elicitation is what the user filled in.
  if (typeof result["action"] === "string") return chosenText(result["action"], result["content"]);
  if (said !== undefined) return contentText(said);
  // A task that is done has the result of the call in it; one that failed, the error.
  if (typeof result["taskId"] === "string") return answerText(result);
  if (Array.isArray(result["messages"]))
    return result["messages"].map((one) => contentText(asObject(one)?.["content"])).join("\n");
  for (const [kind, name] of lists) {
    const list = result[kind];
    if (Array.isArray(list)) return `${list.length} ${name}${list.length === 1 ? "" : "s"}`;
  }
  const { title, name } = asObject(result["serverInfo"]) ?? {};
  return typeof (title ?? name) === "string" ? `to ${String(title ?? name)}` : "";
}

function chosenText(action: string, content: unknown): string {
  const given = Object.entries(asObject(content) ?? {}).map(([name, value]) => `${name}: ${valueText(value)}`);
  return [`The user chose to ${action}`, ...given].join("\n");
}

/** A value as a person reads it: text without quotes, everything else as JSON. */
export function valueText(value: unknown): string {
  return typeof value === "string" ? value : (JSON.stringify(value) ?? "");
}

function contentText(content: unknown): string {
  return Array.isArray(content) ? content.map(partText).join("\n") : partText(content);
}

function partText(part: unknown): string {
  const { type, text, mimeType, uri, resource } = asObject(part) ?? {};
  if (typeof text === "string") return text;
  if (resource !== undefined) return partText(resource);
  const kind = typeof type === "string" ? type : "data";
  const what = typeof mimeType === "string" ? `${kind}, ${mimeType}` : kind;
  return typeof uri === "string" ? `[${what}: ${uri}]` : `[${what}]`;
}
