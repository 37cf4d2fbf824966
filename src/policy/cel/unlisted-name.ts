import { applyChange, InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { pointerTo } from "../../protocol/json/read.ts";
import type { Message } from "../../protocol/message.ts";
import { methodFacts } from "../../protocol/methods.ts";
import { completionReference, targetMembers, targetName } from "../provider/provider.ts";

/** Rules about the beginning of names apply to a longer name as well, rules about one name do not. */
const suffix = "_unlisted";

/** The same request about a name that no server has, for rules to decide about; undefined if it has no name. */
export function withUnlistedName(subject: InspectedMessage): InspectedMessage | undefined {
  const { message, exchange } = subject;
  const named = nameIn(message);
  if (named === undefined) return undefined;
  const change = { set: { [named.pointer]: named.name + suffix } };
  // Only rules read it, so what bounds messages on the wire does not bound it.
  const changed = applyChange(message, change, { revision: exchange.revision });
  if (!changed.ok) return undefined;
  const { upstream } = exchange.tracking;
  const tracking =
    upstream === undefined
      ? exchange.tracking
      : { ...exchange.tracking, upstream: { ...upstream, name: upstream.name + suffix } };
  return InspectedMessage.of({ ...exchange, message: changed.message, tracking });
}

function nameIn(message: Message): { readonly pointer: string; readonly name: string } | undefined {
  const { method = "" } = message;
  if (method === "completion/complete") {
    const reference = completionReference(message);
    const member = reference?.kind === "prompt" ? "name" : "uri";
    return reference && { pointer: pointerTo(["params", "ref", member]), name: reference.name };
  }
  const target = methodFacts(method)?.target;
  const name = target === undefined ? undefined : targetName(message, target);
  return target === undefined || name === undefined
    ? undefined
    : { pointer: pointerTo(targetMembers[target].split(".")), name };
}
