import { findAmbiguousName, foldName, knownNames, type KnownNames } from "../../protocol/json/folded-names.ts";
import { slotOf } from "../../protocol/json/outline.ts";
import type { Message } from "../../protocol/message.ts";
import { hasWrongKind, methodFacts, methodNames } from "../../protocol/methods.ts";
import { completionReference, type PolicyRefusal } from "../provider/provider.ts";

const paramsSlot = slotOf("params");
const maxShown = 100;
/** What enforcement itself reads below `params`, besides the reference of a completion. */
const listenNames = knownNames([
  ["notifications", "resourceSubscriptions"],
  ["notifications", "taskIds"],
]);

/**
 * Refuses a message with a member name that a reader could take for another one. Go and .NET servers read names without
 * regard to letter case, so a policy that reads `amount` would decide about another value than the server uses.
 */
export function ambiguityRefusal(
  { bytes, outline, method }: Message,
  names: KnownNames | undefined,
): PolicyRefusal | undefined {
  const start = outline.spans[paramsSlot] ?? -1;
  if (start < 0) return undefined;
  const span = { start, end: outline.spans[paramsSlot + 1] ?? start };
  let found = findAmbiguousName(bytes, span, names);
  if (found === undefined && method === "subscriptions/listen") found = findAmbiguousName(bytes, span, listenNames);
  if (found === undefined) return undefined;
  const name = JSON.stringify(found.name.slice(0, maxShown));
  const reason =
    found.problem === "repeated"
      ? `The member name ${name} occurs twice in one object, in different letter case.`
      : `The member name ${name} is written in other letter case than the policy knows it.`;
  return { kind: "invalid", code: "ambiguous_member_name", reason };
}

const knownMethods: ReadonlySet<string> = new Set(methodNames.map(foldName));

/** Refuses a message whose kind, method or completion reference a lenient server could take for another one. */
export function unclearRequestRefusal(message: Message): PolicyRefusal | undefined {
  const { kind, method = "" } = message;
  if (hasWrongKind(kind, method)) return wrongKind;
  if (method === "completion/complete")
    return completionReference(message) === undefined ? unknownReference : undefined;
  if (methodFacts(method) !== undefined) return undefined;
  return knownMethods.has(foldName(method)) ? unclearMethod : undefined;
}

const unknownReference: PolicyRefusal = {
  kind: "invalid",
  code: "reference_not_evaluable",
  reason: "The reference of the completion names neither a prompt (`ref/prompt`) nor a resource (`ref/resource`).",
};

const wrongKind: PolicyRefusal = {
  kind: "invalid",
  code: "wrong_message_kind",
  reason: "A request needs an id, and a notification has none.",
};

const unclearMethod: PolicyRefusal = {
  kind: "invalid",
  code: "ambiguous_method",
  reason: "The method is written in other letter case than MCP defines it.",
};
