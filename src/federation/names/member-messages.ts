import type { Seal } from "../../lib/keys/sealing.ts";
import type { Exchange } from "../../core/exchange.ts";
import { withReplacements } from "../../core/synthesize.ts";
import { GatewayError } from "../../errors.ts";
import { isObject } from "../../lib/is-object.ts";
import { changeMembers, setAt } from "../../protocol/json/edit.ts";
import { type MemberName, spanOf } from "../../protocol/json/outline.ts";
import { memberString, memberValue, pointerTo } from "../../protocol/json/read.ts";
import { type Message, replaceValue, type RequestMessage } from "../../protocol/message.ts";
import type { MemberOptions } from "./member-options.ts";

/** The same message with another string in a member; the outline moves along instead of being scanned again. */
export function withString<Kind extends Message>(message: Kind, name: MemberName, value: string): Kind {
  return replaceValue(message, name, Buffer.from(JSON.stringify(value)));
}

/** The same message with another string in an object that it holds; what others wrote beside it stays as it is. */
function withText<Kind extends Message>(message: Kind, holder: MemberName, member: string, text: string): Kind {
  const span = spanOf(message.outline, holder);
  if (span === undefined) return message;
  const changed = changeMembers(message.bytes, span, new Map([[member, JSON.stringify(text)]]));
  return withReplacements(message, [{ span, bytes: changed }]);
}

/** The task id that clients see. It leads every process to the member, and is the same whenever the task is named. */
export function advertisedTask(member: string, task: string): string {
  return `${member}:${task}`;
}

/** The member of a task and its own id; undefined for an id that is not one of ours. */
export function taskTarget(advertised: string): { readonly member: string; readonly name: string } | undefined {
  const end = advertised.indexOf(":");
  return end <= 0 ? undefined : { member: advertised.slice(0, end), name: advertised.slice(end + 1) };
}

const relatedTask = "io.modelcontextprotocol/related-task";

/** The message with the task ids that clients see. */
export function withAdvertisedTasks<Kind extends Message>(message: Kind, member: string): Kind {
  let changed = message;
  const holders = ["result.task", `result._meta.${relatedTask}`, `params._meta.${relatedTask}`] as const;
  for (const holder of holders) {
    if (spanOf(changed.outline, holder) === undefined) continue;
    const value: unknown = memberValue(changed, holder);
    const id: unknown = isObject(value) ? value["taskId"] : undefined;
    if (typeof id === "string") changed = withText(changed, holder, "taskId", advertisedTask(member, id));
  }
  for (const name of ["result.taskId", "params.taskId"] as const) {
    const id = memberString(changed, name);
    if (id !== undefined) changed = withString(changed, name, advertisedTask(member, id));
  }
  return changed;
}

/** A completion request with the member's own name or URI. */
export function withReference(message: RequestMessage, name: string): RequestMessage {
  const reference: unknown = memberValue(message, "params.ref");
  if (!isObject(reference) || reference["type"] !== "ref/prompt") return message;
  return withText(message, "params.ref", "name", name);
}

/** A log message whose logger says which member writes. */
export function withLogger(message: Message, { name }: MemberOptions): Message {
  const params: unknown = memberValue(message, "params");
  if (!isObject(params)) return message;
  const logger = typeof params["logger"] === "string" ? `${name}/${params["logger"]}` : name;
  return withText(message, "params", "logger", logger);
}

/** A question of a member that names the member, because clients should show which server asks (MCP, Elicitation). */
export function withAsker<Kind extends Message>(message: Kind, method: string, { title }: MemberOptions): Kind {
  if (method !== "elicitation/create") return message;
  const params: unknown = memberValue(message, "params");
  if (!isObject(params) || typeof params["message"] !== "string") return message;
  return withText(message, "params", "message", `${title}: ${params["message"]}`);
}

/** A result that asks for input, with who asks. */
function withAskers(message: Message, { title }: MemberOptions): Message {
  const requests: unknown = memberValue(message, "result.inputRequests");
  const span = spanOf(message.outline, "result.inputRequests");
  if (!isObject(requests) || span === undefined) return message;
  let bytes = message.bytes.subarray(span.start, span.end);
  for (const [key, request] of Object.entries(requests)) {
    const params: unknown = isObject(request) ? request["params"] : undefined;
    const isElicitation = isObject(request) && request["method"] === "elicitation/create";
    if (!isElicitation || !isObject(params) || typeof params["message"] !== "string") continue;
    const text = JSON.stringify(`${title}: ${params["message"]}`);
    const edited = setAt(bytes, pointerTo([key, "params", "message"]), text);
    if (edited.ok) ({ bytes } = edited);
  }
  return withReplacements(message, [{ span, bytes }]);
}

/** Binds the state of a call that waits for input to its member, route and caller. */
export interface RequestStates {
  /** A result as clients get it. Questions that a bridge made from requests already name the member. */
  seal(exchange: Exchange, member: MemberOptions, message: Message, saysAsker: boolean): Message;
  /** A retry as the member gets it. Throws if the state is of another member or caller. */
  open(exchange: Exchange, member: MemberOptions, message: RequestMessage): RequestMessage;
  /**
   * The member's state inside one that a caller sent; undefined if it belongs to none of these members, or to another
   * caller.
   */
  ownState(
    caller: Pick<Exchange, "route" | "principal">,
    members: readonly MemberOptions[],
    text: string,
  ): string | undefined;
}

export function createRequestStates(seal: Seal): RequestStates {
  const contextOf = ({ route, principal }: Pick<Exchange, "route" | "principal">, { name }: MemberOptions): string =>
    JSON.stringify([route, principal.id, name]);
  return {
    seal: (exchange, member, message, saysAsker) => {
      const asking = saysAsker ? message : withAskers(message, member);
      const state = memberString(asking, "result.requestState");
      if (state === undefined) return asking;
      return withString(asking, "result.requestState", seal.seal(Buffer.from(state), contextOf(exchange, member)));
    },
    open: (exchange, member, message) => {
      if (spanOf(message.outline, "params.requestState") === undefined) return message;
      const text = memberString(message, "params.requestState") ?? "";
      const state = seal.open(text, contextOf(exchange, member));
      if (state === undefined) {
        const problem =
          "requestState was not issued for this request or was altered; send the request again without it";
        throw new GatewayError("invalid_params", problem, { details: { requestState: "broken" } });
      }
      return withString(message, "params.requestState", state.toString());
    },
    ownState: (caller, members, text) => {
      for (const member of members) {
        const state = seal.open(text, contextOf(caller, member));
        if (state !== undefined) return state.toString();
      }
      return undefined;
    },
  };
}
