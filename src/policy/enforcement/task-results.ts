import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { BoundedMap } from "../../lib/bounded-map.ts";
import { andThen, type MaybePromise } from "../../lib/is-promise.ts";
import { splice } from "../../protocol/json/edit.ts";
import { slotOf, type Span, spanOf } from "../../protocol/json/outline.ts";
import { memberSource, membersOf, memberString, typeAt } from "../../protocol/json/read.ts";
import { type Message, messageBytes, type RequestMessage } from "../../protocol/message.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import type { CheckOutcome, Evaluator } from "./evaluator.ts";
import { synthesizeMessage, synthesizeRequest, synthesizeResult } from "./synthesize.ts";

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
  const tasks = new BoundedMap<string, StartedTask>(maxTasks);

  return {
    remember: ({ exchange, message }, request, memory) => {
      // Checked on every response, so by the outline alone.
      const { spans } = message.outline;
      if ((spans[taskIdSlot] ?? -1) < 0 && (spans[taskSlot] ?? -1) < 0) return;
      const { taskId } = metadataOf(message);
      if (taskId === undefined || request.method.startsWith("tasks/")) return;
      tasks.set(taskKey(exchange, taskId), { request: compactRequest(request), memory });
    },
    checkResult: (subject) => {
      const { message, exchange } = subject;
      const unchanged: CheckOutcome = { type: "pass", message, memory: undefined };
      const isBareResult = subject.request?.method === "tasks/result" && message.kind === "result";
      const inlined = isBareResult ? undefined : inlinedResult(message);
      if (!isBareResult && inlined === undefined) return unchanged;
      const id = memberString(subject.request ?? message, "params.taskId");
      const started = id === undefined ? undefined : tasks.get(taskKey(exchange, id));
      // Without the request its rules are unknown; a client could start many tasks to have it forgotten.
      if (started === undefined)
        return evaluator.refuse(subject, "the request that started the task is unknown", forgotten);
      const { request, memory } = started;
      const asked = { ...exchange, direction: requestDirection(subject), message: request };
      if (inlined === undefined) return evaluator.evaluate(InspectedMessage.answering(asked, request, message), memory);
      const result = synthesizeResult(request.id.json, message.bytes.toString("utf8", inlined.start, inlined.end));
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

/** The direction of the request that started a task; a notification about it goes the other way. */
function requestDirection({ exchange: { direction }, request }: InspectedMessage): Exchange["direction"] {
  if (request !== undefined) return direction;
  return direction === "client-to-server" ? "server-to-client" : "client-to-server";
}

/** Longer requests are kept without their arguments. */
const maxKeptBytes = 16 * 1024;

/** The request in its own buffer: the one it came in may be much larger, and a task may run for days. */
function compactRequest(request: RequestMessage): RequestMessage {
  const own = messageBytes(request);
  const name = memberSource(request, "params.name");
  const compact =
    own.length <= maxKeptBytes
      ? synthesizeMessage(own.toString())
      : synthesizeRequest(request.id.json, request.method, name === undefined ? undefined : `{"name":${name}}`);
  return compact?.kind === "request" ? compact : request;
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

function taskKey({ principal }: Exchange, taskId: string): string {
  return `${principal.id.length} ${principal.id}${taskId}`;
}
