import { type Exchange, limitKeyOf } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { FairMap } from "../../lib/bounded-map.ts";
import { andThen, type MaybePromise } from "../../lib/is-promise.ts";
import { splice } from "../../protocol/json/edit.ts";
import { slotOf, type Span, spanOf } from "../../protocol/json/outline.ts";
import { memberSource, membersOf, memberString, typeAt } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { startedTaskId } from "../../protocol/metadata.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { CheckOutcome, Evaluator } from "./evaluator.ts";
import { messageFromText, requestFromTexts, resultFromTexts } from "./refusals.ts";

/**
 * Evaluates the result of a task as the response to the request that started it. Otherwise a rule about a tool's results
 * could be evaded by calling the tool as a task (MCP 2025-11-25, Tasks, and the Tasks extension).
 */
export interface TaskResults {
  /** Remembers the request that started a task, if its response is a task. */
  remember(subject: InspectedMessage, request: RequestMessage, memory: unknown): void;
  /** Evaluates the task result in a response or notification; passes a message without one. */
  checkResult(subject: InspectedMessage): MaybePromise<CheckOutcome>;
}

interface StartedTask {
  readonly request: RequestMessage;
  readonly memory: unknown;
  /** The request lacks arguments that decisions depend on. */
  readonly isPartial: boolean;
}

const maxTasks = 10_000;
const taskIdSlot = slotOf("result.taskId");
const taskSlot = slotOf("result.task");
const taskMethods: ReadonlySet<string | undefined> = new Set(["tasks/result", "tasks/get", "notifications/tasks"]);

export function mayHoldTaskResult(method: string | undefined): boolean {
  return taskMethods.has(method);
}

/** Creates the checks of one route. */
export function createTaskResults(evaluator: Evaluator): TaskResults {
  const tasks = new FairMap<StartedTask>(maxTasks);

  return {
    remember: ({ exchange, message }, request, memory) => {
      // Checked on every response, so by the outline alone.
      const { spans } = message.outline;
      if ((spans[taskIdSlot] ?? -1) < 0 && (spans[taskSlot] ?? -1) < 0) return;
      const taskId = startedTaskId(message);
      if (taskId === undefined || request.method.startsWith("tasks/")) return;
      const started = { ...compactRequest(request, evaluator.argumentsForResponses), memory };
      tasks.set(limitKeyOf(exchange.principal), taskKey(exchange, exchange.direction, taskId), started);
    },
    checkResult: (subject) => {
      const { message, exchange } = subject;
      const unchanged: CheckOutcome = { type: "pass", message, memory: undefined };
      const isBareResult = subject.request?.method === "tasks/result" && message.kind === "result";
      const inlined = isBareResult ? undefined : inlinedResult(message);
      if (!isBareResult && inlined === undefined) return unchanged;
      const id = memberString(subject.request ?? message, "params.taskId");
      const direction = requestDirection(subject);
      const started = id === undefined ? undefined : tasks.get(taskKey(exchange, direction, id));
      // Without the request its rules are unknown; a client could start many tasks to evict it.
      if (started === undefined)
        return evaluator.refuse(subject, "the request that started the task is unknown", forgotten);
      const { request, memory, isPartial } = started;
      if (isPartial)
        return evaluator.refuse(subject, "the arguments of the call that started the task were too long", tooLong);
      const asked = { ...exchange, direction, message: request };
      if (inlined === undefined) return evaluator.evaluate(InspectedMessage.answering(asked, request, message), memory);
      const result = resultFromTexts(request.id.json, message.bytes.toString("utf8", inlined.start, inlined.end));
      if (result === undefined) return evaluator.refuse(subject, "the result of the task is malformed");
      const checked = evaluator.evaluate(InspectedMessage.answering(asked, request, result), memory);
      return andThen(checked, (outcome) => {
        if (outcome.type === "refuse") return outcome;
        if (outcome.message === result) return unchanged;
        const json = Buffer.from(memberSource(outcome.message, "result") ?? "{}");
        const bytes = splice(message.bytes, message.outline, [{ span: inlined, bytes: json }]);
        return evaluator.change(subject, { bytes });
      });
    },
  };
}

const forgotten: PolicyRefusal = {
  kind: "forbidden",
  code: "task_forgotten",
  reason: "The call that started this task is no longer known; call the tool again.",
};

const tooLong: PolicyRefusal = {
  kind: "forbidden",
  code: "task_arguments_too_long",
  reason: "The policy reads the arguments of the call that started this task, and they are too long to be kept.",
};

/** The direction of the request that started a task; a notification about it goes the other way. */
function requestDirection({ exchange: { direction }, request }: InspectedMessage): Exchange["direction"] {
  if (request !== undefined) return direction;
  return direction === "client-to-server" ? "server-to-client" : "client-to-server";
}

/** Of longer requests only the arguments are kept that decisions about the result depend on. */
const maxKeptBytes = 16 * 1024;

/** The request in its own buffer: the one it came in may be much larger, and a task may run for days. */
function compactRequest(
  request: RequestMessage,
  needed: readonly string[] | undefined,
): Pick<StartedTask, "request" | "isPartial"> {
  const own = messageBytes(request);
  if (own.length <= maxKeptBytes) {
    const compact = messageFromText(own.toString());
    return { request: compact?.kind === "request" ? compact : request, isPartial: false };
  }
  const name = memberSource(request, "params.name");
  const kept = needed && neededArguments(request, new Set(needed));
  const isPartial = kept === undefined || kept.length > maxKeptBytes;
  const members = [
    ...(name === undefined ? [] : [`"name":${name}`]),
    ...(isPartial || kept === "" ? [] : [`"arguments":${kept}`]),
  ];
  const compact = requestFromTexts(request.id.json, request.method, `{${members.join(",")}}`);
  return compact?.kind === "request" ? { request: compact, isPartial } : { request, isPartial: false };
}

/** The arguments with these names, as JSON; empty if the request has none. */
function neededArguments({ bytes, outline }: RequestMessage, names: ReadonlySet<string>): string | undefined {
  const span = spanOf(outline, "params.arguments");
  if (span === undefined) return "";
  if (typeAt(bytes, span.start) !== "object") return undefined;
  const members: string[] = [];
  for (const { name, start, value } of membersOf(bytes, span))
    if (names.has(name)) members.push(bytes.toString("utf8", start, value.end));
  return `{${members.join(",")}}`;
}

/** The result inlined in a task (Tasks extension, "tasks/get"). */
function inlinedResult({ bytes, outline, kind }: Message): Span | undefined {
  const span = spanOf(outline, kind === "result" ? "result" : "params");
  if (span === undefined || typeAt(bytes, span.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, span)) {
    if (name === "result" && typeAt(bytes, value.start) === "object") return value;
  }
  return undefined;
}

/**
 * Each side has tasks of its own. Otherwise, a client could answer a server's question with the id of one of the
 * server's tasks, and that task's result would be mistaken for the answer.
 */
function taskKey({ principal }: Exchange, direction: Exchange["direction"], taskId: string): string {
  return `${direction} ${principal.id.length} ${principal.id}${taskId}`;
}
