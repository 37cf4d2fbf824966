import { startAgent } from "./agent.ts";
import type { AgentMessage } from "./messages.ts";
import type { AgentOptions } from "./options.ts";
import type { UserContent } from "./turns.ts";

/** What to ask, and how the agent runs. */
export interface QueryInput {
  /** One prompt, or several that follow each other in one conversation. */
  readonly prompt: UserContent | AsyncIterable<UserContent>;
  readonly options?: AgentOptions;
}

/**
 * Runs an agent for one prompt or a few: starts the CLI, yields its messages, ends after the last result and cleans up.
 * A failure rejects the iteration; leaving the iteration ends the agent.
 */
export async function* query({ prompt, options }: QueryInput): AsyncGenerator<AgentMessage, void, void> {
  const agent = await startAgent(options);
  let done = false;
  try {
    for await (const content of isStream(prompt) ? prompt : [prompt]) {
      const turn = agent.send(content);
      // Not `for await`, which would interrupt the turn and wait for its result when the caller leaves.
      for (let step = await turn.next(); step.done !== true; step = await turn.next()) yield step.value;
    }
    done = true;
  } finally {
    await agent.close({ force: !done });
  }
}

function isStream(prompt: QueryInput["prompt"]): prompt is AsyncIterable<UserContent> {
  return typeof prompt === "object" && Symbol.asyncIterator in prompt;
}
