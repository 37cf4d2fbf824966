import { randomUUID } from "node:crypto";

import { AgentError } from "../errors.ts";
import type { AgentMessage } from "./messages.ts";

/** A prompt: text, or content blocks of the Messages API. */
export type UserContent = string | readonly Readonly<Record<string, unknown>>[];

export interface TurnQueueDeps {
  readonly write: (line: string) => Promise<void>;
  /** Stops the running turn. */
  readonly interrupt: () => Promise<void>;
}

/**
 * Makes a queue. The CLI may merge prompts that arrive during a turn, so each waits for the turn before it. A prompt
 * that steers a turn is merged if it comes in time, and otherwise runs as a separate turn. The CLI repeats each prompt
 * when it takes it up, so the turn lasts until the result after the last one.
 */
export function createTurnQueue({ write, interrupt }: TurnQueueDeps) {
  const messages: AgentMessage[] = [];
  let failure: AgentError | undefined;
  let wake: () => void = () => {};
  let last: Promise<void> = Promise.resolve();
  let isRunning = false;
  /** The prompts that steer the running turn and that the CLI has not taken up yet. */
  const steering = new Set<string>();

  async function next(): Promise<AgentMessage> {
    for (;;) {
      const message = messages.shift();
      if (message !== undefined) return message;
      if (failure !== undefined) throw failure;
      const { promise, resolve } = Promise.withResolvers<void>();
      wake = resolve;
      await promise;
    }
  }

  async function* run(content: UserContent): AsyncGenerator<AgentMessage, void, void> {
    const before = last;
    const { promise, resolve: release } = Promise.withResolvers<void>();
    last = promise;
    await before;
    let done = false;
    try {
      if (failure !== undefined) throw failure;
      await write(userLine(content));
      isRunning = true;
      while (!done) {
        const message = await next();
        done = message.type === "result";
        if (done) isRunning = false;
        yield message;
      }
    } finally {
      isRunning = false;
      if (!done && failure === undefined) await abandon();
      steering.clear();
      release();
    }
  }

  /** Drains an abandoned turn, so that its result is not taken for that of the next one. */
  async function abandon(): Promise<void> {
    try {
      await interrupt();
      while ((await next()).type !== "result");
    } catch {
      // The agent has ended; its next use fails.
    }
  }

  return {
    /** Sends a prompt and yields the messages up to the result. A turn that is left early is interrupted. */
    run,
    /** Adds to the running turn; rejects if none runs. */
    async steer(content: UserContent): Promise<void> {
      if (failure !== undefined) throw failure;
      if (!isRunning) throw new AgentError("no_turn", "no turn is running; send the prompt instead");
      const id = randomUUID();
      steering.add(id);
      await write(userLine(content, id));
    },
    /** Adds a message of the CLI; messages between two turns go to the next one. */
    push(message: AgentMessage): void {
      if (message.type === "user" && message.raw["isReplay"] === true) {
        steering.delete(String(message.raw["uuid"]));
        return;
      }
      // A steering prompt is still open, so the turn continues after this result.
      if (message.type === "result" && steering.size > 0) return;
      messages.push(message);
      wake();
    },
    /** Fails the running turn and all later ones. */
    fail(error: AgentError): void {
      failure ??= error;
      wake();
    },
  };
}

function userLine(content: UserContent, uuid?: string): string {
  return JSON.stringify({
    type: "user",
    ...(uuid !== undefined && { uuid }),
    message: { role: "user", content },
    parent_tool_use_id: null,
    session_id: "",
  });
}
