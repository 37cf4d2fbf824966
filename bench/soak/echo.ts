import { type Ask, discoverResult, initializeResultFor, isAsk } from "../load/answers.ts";

/** What is answered to a message: the text of a call comes back. Undefined where nothing is. */
export function echoAnswer(message: unknown): string | undefined {
  if (!isAsk(message)) return undefined;
  return `{"jsonrpc":"2.0","id":${JSON.stringify(message.id)},"result":${resultOf(message)}}`;
}

function resultOf(message: Ask): string {
  switch (message.method) {
    case "initialize":
      return initializeResultFor(message);
    case "server/discover":
      return discoverResult;
    case "tools/call":
      return `{"resultType":"complete","content":[{"type":"text","text":${JSON.stringify(textOf(message))}}]}`;
    default:
      return "{}";
  }
}

function textOf(message: object): string {
  const { params } = message as { readonly params?: { readonly arguments?: { readonly text?: unknown } } };
  const text = params?.arguments?.text;
  return typeof text === "string" ? text : "";
}
