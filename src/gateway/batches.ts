import type { ServerResponse } from "node:http";
import type { ReplyStream } from "../exchange.ts";
import type { Reply } from "../pipeline.ts";
import { combineAnswers, messageBytes } from "../protocol/batch.ts";
import type { Message, ParseOutcome } from "../protocol/message.ts";
import { parseFailureResponse } from "../protocol/refusal.ts";
import { refusalReply } from "../reply.ts";
import type { Session } from "../sessions/session.ts";
import { SseResponse } from "../transports/http/sse-response.ts";
import type { GatewayContext } from "./context.ts";
import type { Route } from "./route.ts";
import type { SessionStream } from "./session-streams.ts";

/**
 * Answers a batch (MCP 2025-03-26): each member goes its own way; the answers come back as one array, or on a stream
 * as soon as any of them streams. A batch without requests is answered 202.
 */
export async function answerBatch(
  gateway: GatewayContext,
  visit: { readonly response: ServerResponse; readonly route: Route },
  outcome: ParseOutcome & { ok: true },
  session: Session,
  run: (message: Message, reply: ReplyStream) => Promise<Reply>,
): Promise<void> {
  if (outcome.form !== "batch") return;
  const { response, route } = visit;
  let stream: SessionStream | undefined;
  const early: Message[] = [];
  const open = (): SessionStream => {
    if (stream === undefined) {
      stream = route.streamsOf(session).open(undefined);
      if (!response.destroyed) stream.attach(new SseResponse(response, gateway.streamOptions(route)));
      for (const message of early) void stream.write(message);
      early.length = 0;
    }
    return stream;
  };
  const answered = (message: Message): void => {
    if (stream === undefined) early.push(message);
    else void stream.write(message);
  };
  const reply: ReplyStream = {
    open: () => {
      open();
    },
    write: (message) => open().write(message),
  };
  await Promise.all(
    outcome.members.map(async (member) => {
      if (!member.ok) {
        const refusal = refusalReply(parseFailureResponse(member.failure)).message;
        if (refusal !== undefined) answered(refusal);
        return;
      }
      const { message } = member;
      if (message.kind === "result" || message.kind === "error") {
        session.deliverResponse(message);
        return;
      }
      const answer = await run(message, reply);
      if (answer.message !== undefined) answered(answer.message);
    }),
  );
  if (stream !== undefined) {
    stream.end();
    return;
  }
  const body = combineAnswers(early.map(messageBytes), true);
  if (response.destroyed) return;
  if (body === undefined) {
    response.writeHead(202, { "content-length": 0 });
    response.end();
    return;
  }
  response.writeHead(200, { "content-type": "application/json", "content-length": body.length });
  response.end(body);
}
