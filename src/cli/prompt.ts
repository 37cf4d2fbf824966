import { createInterface, type Interface } from "node:readline";

import type { CliIo, ServingIo } from "./io.ts";

/** The outside world of commands that may prompt: possible if standard input and error are a terminal. */
export type PromptIo = CliIo & Partial<Pick<ServingIo, "stdin" | "stdout" | "isTerminal">>;

/** Asks the user at the terminal. */
export interface Prompt extends Disposable {
  /** Prints a question on standard error and returns the line typed; undefined at the end of input. */
  readonly ask: (question: string) => Promise<string | undefined>;
}

/** A prompt on the terminal; undefined without one. */
export function createPrompt({ stdin, isTerminal, err }: PromptIo): Prompt | undefined {
  if (stdin === undefined || isTerminal !== true || !isTty(stdin)) return undefined;
  // Opened at the first question: a command that asks nothing must leave standard input alone.
  let lines: { readonly source: Interface; readonly next: AsyncIterator<string> } | undefined;
  return {
    ask: async (question) => {
      if (lines === undefined) {
        const source = createInterface({ input: stdin, terminal: false });
        lines = { source, next: source[Symbol.asyncIterator]() };
      }
      err(question);
      const answer = await lines.next.next();
      if (answer.done === true) err("\n");
      return answer.done === true ? undefined : answer.value;
    },
    [Symbol.dispose]: () => lines?.source.close(),
  };
}

/** Whether a stream is a terminal. */
export function isTty(stream: object | undefined): boolean {
  return stream !== undefined && "isTTY" in stream && stream.isTTY === true;
}
