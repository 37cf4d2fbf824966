import type { AgentError } from "./errors.ts";
import type { AgentMessage } from "./messages.ts";

/** What a user says: a text, or content blocks as the Messages API takes them. */
export type UserContent = string | readonly Readonly<Record<string, unknown>>[];

/** What turns need of their agent. */
export interface TurnQueueDeps {
  readonly write: (line: string) => Promise<void>;
  /** Stops the turn that runs. */
  readonly interrupt: () => Promise<void>;
}

/** The turns of an agent, one after the other. */
export interface TurnQueue {
  /** Says something and yields what comes of it up to the result. A turn that is left early is interrupted. */
  readonly run: (content: UserContent) => AsyncGenerator<AgentMessage, void, void>;
  /** Takes a message of the CLI; those between two turns are kept for the next one. */
  readonly push: (message: AgentMessage) => void;
  /** Ends the turn that runs, and every later one, with this error. */
  readonly fail: (error: AgentError) => void;
}

/** Makes the turns of one agent. The CLI may join prompts that it gets during a turn, so each waits for its own. */
export function createTurnQueue({ write, interrupt }: TurnQueueDeps): TurnQueue {
  const messages: AgentMessage[] = [];
  let failure: AgentError | undefined;
  let wake: () => void = () => {};
  let last: Promise<void> = Promise.resolve();

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
      while (!done) {
        const message = await next();
        done = message.type === "result";
        yield message;
      }
    } finally {
      if (!done && failure === undefined) await abandon();
      release();
    }
  }

  /** The result of an abandoned turn must not be taken for that of the next one. */
  async function abandon(): Promise<void> {
    try {
      await interrupt();
      while ((await next()).type !== "result");
    } catch {
      // The agent has ended; whoever uses it next is told.
    }
  }

  return {
    run,
    push(message) {
      messages.push(message);
      wake();
    },
    fail(error) {
      failure ??= error;
      wake();
    },
  };
}

function userLine(content: UserContent): string {
  return JSON.stringify({
    type: "user",
    message: { role: "user", content },
    parent_tool_use_id: null,
    session_id: "",
  });
}
