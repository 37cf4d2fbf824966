import { textResult } from "./legacy-session.ts";
import type { Answering } from "./legacy-upstream.ts";

/** Calls of the tool `slow`, which a test holds until it lets them go; those of other tools are answered at once. */
export interface HeldCalls {
  /** Answers a call each. */
  readonly held: (() => void)[];
  readonly answer: Answering;
}

/** Creates the answers of such an upstream: the name of the tool. */
export function createHeldCalls(): HeldCalls {
  const held: (() => void)[] = [];
  return {
    held,
    answer: (call, { id, params }) => {
      const reply = (): void => {
        call.reply(textResult(id, String(params?.["name"])));
      };
      if (params?.["name"] === "slow") held.push(reply);
      else reply();
    },
  };
}
