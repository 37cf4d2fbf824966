import type { Exchange } from "../../exchange.ts";
import type { RequestMessage } from "../../protocol/message.ts";

/** A question of a server that has been let through, and what its verdict left for the answer. */
export interface PendingInputRequest {
  readonly request: RequestMessage;
  readonly memory: unknown;
}

/**
 * What was asked in results that wait for input, until the retry that answers it. Nothing depends on it but how much
 * is known when the answer is judged, so it may forget: the longest unused goes first.
 */
export interface PendingInputRequests {
  keep(exchange: Exchange, state: string | undefined, key: string, asked: PendingInputRequest): void;
  take(exchange: Exchange, state: string | undefined, key: string): PendingInputRequest | undefined;
  readonly size: number;
}

const maxQuestions = 1000;
/** Longer questions are not kept: an answer can be judged without. */
const maxBytes = 16 * 1024;

/** Makes an empty memory. */
export function createPendingInputRequests(): PendingInputRequests {
  const questions = new Map<string, PendingInputRequest>();
  return {
    keep: (exchange, state, key, asked) => {
      if (asked.request.bytes.length > maxBytes) return;
      questions.set(placeOf(exchange, state, key), asked);
      const [oldest] = questions.keys();
      if (questions.size > maxQuestions && oldest !== undefined) questions.delete(oldest);
    },
    take: (exchange, state, key) => {
      const place = placeOf(exchange, state, key);
      const asked = questions.get(place);
      questions.delete(place);
      return asked;
    },
    get size() {
      return questions.size;
    },
  };
}

/** Lengths keep the parts apart whatever they hold: two places are one only where all their parts are. */
function placeOf({ principal }: Exchange, state: string | undefined, key: string): string {
  return `${principal.id.length} ${key.length} ${principal.id}${key}${state ?? ""}`;
}
