import type { InspectedMessage } from "../../intercept/subject.ts";
import type { Reply } from "../../pipeline.ts";
import { memberString, memberValue } from "../../protocol/json/read.ts";
import type { RequestMessage } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { revisions } from "../../protocol/revisions.ts";
import { errorMessage } from "../../reply.ts";
import type { ErrorBody } from "../../reply.ts";
import type { NotFoundTemplates } from "./unknown-forms.ts";

/**
 * The answer to a request about something that the caller may not know of: the very one for a name that does not
 * exist, without any mark of the gateway. In the words of the server itself where the caller has met them, else in
 * those of the specification.
 */
export function notFoundReply(
  subject: InspectedMessage,
  request: RequestMessage,
  forms: NotFoundTemplates,
): Reply {
  const learned = forms.replyFor(subject.exchange, request);
  if (learned !== undefined) return learned;
  return { message: errorMessage(request.id, specNotFoundError(subject, request)) };
}

/** MCP 2025-11-25 and 2026-07-28: Tools, Prompts, Resources and Completion, each under "Error Handling". */
function specNotFoundError({ exchange }: InspectedMessage, request: RequestMessage): ErrorBody {
  const { method } = request;
  const uri = memberString(request, "params.uri");
  switch (methodFacts(method)?.target) {
    case "tool":
      return invalid(`Unknown tool: ${memberString(request, "params.name")}`);
    case "prompt":
      return invalid(`Unknown prompt: ${memberString(request, "params.name")}`);
    case "task":
      return invalid("Task not found");
    case "resource": {
      const code = revisions[exchange.revision].resourceNotFoundCode;
      return { code, message: "Resource not found", ...(uri === undefined ? {} : { data: { uri } }) };
    }
    case undefined:
      return method === "completion/complete"
        ? invalid(`Unknown reference: ${referenceOf(request)}`)
        : { code: -32601, message: `Method not found: ${method}` };
  }
}

function referenceOf(request: RequestMessage): string {
  const reference: unknown = Object(memberValue(request, "params.ref"));
  return String(Reflect.get(Object(reference), "name") ?? Reflect.get(Object(reference), "uri"));
}

function invalid(message: string): ErrorBody {
  return { code: -32602, message };
}
