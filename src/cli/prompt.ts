import { createInterface, type Interface } from "node:readline";

import type { CliIo, ServingIo } from "./io.ts";

/** The outside world of commands that may ask: a person is there if both ends of the conversation are a terminal. */
export type PromptIo = CliIo & Partial<Pick<ServingIo, "stdin" | "stdout" | "isTerminal">>;

/** A person at the terminal who can be asked. */
export interface Prompt extends Disposable {
  /** Puts a question on standard error; the answer is a line, or nothing where the person ended the input. */
  readonly ask: (question: string) => Promise<string | undefined>;
}

/** The person at the terminal, if there is one. */
export function createPrompt({ stdin, isTerminal, err }: PromptIo): Prompt | undefined {
  if (stdin === undefined || isTerminal !== true || !isTty(stdin)) return undefined;
  // Opened at the first question: a command that asks nothing must not hold standard input.
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
