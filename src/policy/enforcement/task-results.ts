import type { Exchange } from "../../core/exchange.ts";
import { InspectedMessage } from "../../core/interceptors/inspected-message.ts";
import { type Message, messageBytes, type ParseLimits, type RequestMessage } from "../../protocol/message.ts";
import { slotOf, type Span, spanOf } from "../../protocol/json/outline.ts";
import { membersOf, memberSource, memberString, typeAt } from "../../protocol/json/read.ts";
import { metadataOf } from "../../protocol/metadata.ts";
import { parseText } from "../../protocol/parse.ts";
import type { PolicyRefusal } from "../provider/provider.ts";
import { spliceMessage } from "./message-edit.ts";
import { andThen, type CheckOutcome, type Evaluator, type MaybePromise } from "./evaluator.ts";

/**
 * Judges the results of tasks as what they are: answers to the calls that began them. Without that a rule about a
 * tool's results could be evaded by calling the tool as a task (MCP 2025-11-25, Tasks, and the Tasks extension).
 */
export interface TaskResults {
  /** Remembers the request that a task began with, where its answer is a task. */
  remember(subject: InspectedMessage, request: RequestMessage, memory: unknown): void;
  /** Judges the result of a task in an answer or a notification; passes what holds none. */
  checkResult(subject: InspectedMessage): MaybePromise<CheckOutcome>;
}

interface StartedTask {
  readonly request: RequestMessage;
  readonly memory: unknown;
}

/** Tasks of which is known how they began; the longest unused goes first. */
const maxTasks = 10_000;
const taskIdSlot = slotOf("result.taskId");
const taskSlot = slotOf("result.task");
/** Methods whose messages hold the result of a task. */
const holders: ReadonlySet<string> = new Set(["tasks/result", "tasks/get", "notifications/tasks"]);

/** Whether a message may hold the result of a task. */
export function mayHoldTaskResult(method: string | undefined): boolean {
  return method !== undefined && holders.has(method);
}

/** Makes the checks for one route. */
export function createTaskResults(judge: Evaluator, limits: ParseLimits | undefined): TaskResults {
  const tasks = new Map<string, StartedTask>();

  function begunBy({ exchange, message, request }: InspectedMessage): StartedTask | undefined {
    const id = memberString(request ?? message, "params.taskId");
    return id === undefined ? undefined : tasks.get(keyOf(exchange, id));
  }

  return {
    remember: ({ exchange, message }, request, memory) => {
      // Most answers are no tasks, which their outline shows at once.
      const { spans } = message.outline;
      if ((spans[taskIdSlot] ?? -1) < 0 && (spans[taskSlot] ?? -1) < 0) return;
      const { taskId } = metadataOf(message);
      if (taskId === undefined || request.method.startsWith("tasks/")) return;
      const key = keyOf(exchange, taskId);
      tasks.delete(key);
      tasks.set(key, { request: keptForm(request), memory });
      const [oldest] = tasks.keys();
      if (tasks.size > maxTasks && oldest !== undefined) tasks.delete(oldest);
    },
    checkResult: (subject) => {
      const { message, exchange } = subject;
      const begun = begunBy(subject);
      const untouched: CheckOutcome = { type: "pass", message, memory: undefined };
      const isWhole = subject.request?.method === "tasks/result" && message.kind === "result";
      const inner = isWhole ? undefined : resultIn(message);
      if (!isWhole && inner === undefined) return untouched;
      // Nobody can tell which rules hold for it: whoever makes many tasks must not get this one unjudged.
      if (begun === undefined) return judge.refuse(subject, "it is not known how the task began", forgotten);
      const { direction } = subject.request === undefined ? reversed(exchange) : exchange;
      const asked = { ...exchange, direction, message: begun.request };
      if (inner === undefined)
        return judge.evaluate(InspectedMessage.answering(asked, begun.request, message), begun.memory);
      const text = message.bytes.toString("utf8", inner.start, inner.end);
      const answer = answerFrom(begun.request, text);
      if (answer === undefined) return judge.refuse(subject, "the result of a task is no result");
      return andThen(
        judge.evaluate(InspectedMessage.answering(asked, begun.request, answer), begun.memory),
        (ruling) => {
          if (ruling.type === "refuse" || ruling.message === answer) {
            return ruling.type === "refuse" ? ruling : untouched;
          }
          const json = Buffer.from(memberSource(ruling.message, "result") ?? "{}");
          const made = spliceMessage(message, [{ span: inner, bytes: json }], exchange, limits);
          return made === undefined
            ? judge.refuse(subject, "the result of a task could not be changed")
            : { type: "pass", message: made, memory: undefined };
        },
      );
    },
  };
}

/** What an agent is told about a task whose beginning has been forgotten, as after a restart. */
const forgotten: PolicyRefusal = {
  kind: "forbidden",
  code: "task_forgotten",
  reason: "it is not known any more which call began this task; call the tool again",
};

/** A notification travels the way of the answer, not of the call. */
function reversed({ direction }: Exchange): Pick<Exchange, "direction"> {
  return { direction: direction === "client-to-server" ? "server-to-client" : "client-to-server" };
}

/** Arguments longer than this are not kept: results are told apart by their tool. */
const maxKeptBytes = 16 * 1024;

/** The request in bytes of its own: those that it came in may hold much more, and a task may live for days. */
function keptForm(request: RequestMessage): RequestMessage {
  const own = messageBytes(request);
  const name = memberSource(request, "params.name");
  const params = name === undefined ? "" : `,"params":{"name":${name}}`;
  const text =
    own.length <= maxKeptBytes
      ? own.toString()
      : `{"jsonrpc":"2.0","id":${request.id.json},"method":${JSON.stringify(request.method)}${params}}`;
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  return outcome.ok && outcome.form === "single" && outcome.message.kind === "request" ? outcome.message : request;
}

/** The result that is inlined in a task, in an answer or a notification (Tasks extension, "tasks/get"). */
function resultIn({ bytes, outline, kind }: Message): Span | undefined {
  const span = spanOf(outline, kind === "result" ? "result" : "params");
  if (span === undefined || typeAt(bytes, span.start) !== "object") return undefined;
  for (const { name, value } of membersOf(bytes, span)) {
    if (name === "result" && typeAt(bytes, value.start) === "object") return value;
  }
  return undefined;
}

function answerFrom({ id }: RequestMessage, result: string): Message | undefined {
  const text = `{"jsonrpc":"2.0","id":${id.json},"result":${result}}`;
  const outcome = parseText(text, { revision: "unknown", mode: "enforce" });
  return outcome.ok && outcome.form === "single" ? outcome.message : undefined;
}

function keyOf({ principal }: Exchange, taskId: string): string {
  return `${principal.id.length} ${principal.id}${taskId}`;
}
