import type { CallEra } from "../load/calls.ts";

/** Sends one request and resolves with the text of its answer; a lane has one at a time. */
export type Lane = (id: number, body: string) => Promise<string>;

/** A client of the soak's own: it knows no more of the protocol than it needs, so that its cost does not count. */
export interface LeanClient extends AsyncDisposable {
  readonly era: CallEra;
  readonly lanes: readonly Lane[];
}

/** What a legacy client says first. */
export const handshake = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "soak", version: "1" } },
});

/** What it says when that was answered. */
export const initialized = '{"jsonrpc":"2.0","method":"notifications/initialized"}';

const envelope =
  ',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}';
let lastId = 1_000_000;

/** Calls the echo so many times, on every lane as soon as its last answer is there, and checks the answers. */
export async function callOnLanes({ era, lanes }: LeanClient, calls: number): Promise<void> {
  let left = calls;
  const work = async (lane: Lane): Promise<void> => {
    while (left > 0) {
      left -= 1;
      lastId += 1;
      const id = lastId;
      // No two calls have the same text, so that an answer which went to the wrong one is noticed.
      const text = `call ${id}, with some more words so that it has the length of an ordinary one`;
      checkAnswer(await lane(id, callOf(era, id, text)), id, text);
    }
  };
  await Promise.all(lanes.map(work));
}

function callOf(era: CallEra, id: number, text: string): string {
  const meta = era === "modern" ? envelope : "";
  return `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":{"name":"echo","arguments":{"text":"${text}"}${meta}}}`;
}

/** The answer of the echo: its id is that of the call, its only content the text. */
function checkAnswer(answer: string, id: number, text: string): void {
  const parsed = JSON.parse(answer) as {
    readonly id?: unknown;
    readonly result?: { readonly content?: readonly { readonly text?: unknown }[] };
  };
  const content = parsed.result?.content;
  if (parsed.id !== id || content?.length !== 1 || content[0]?.text !== text)
    throw new Error(`not the answer to call ${id}: ${answer.slice(0, 500)}`);
}

/** Who waits for which answer. */
export interface Answers {
  /** Resolves with the answer of that id. */
  wait(id: number): Promise<string>;
  /** Hands over what came; what nobody waits for is a fault. */
  take(answer: string): void;
  /** Rejects all waiting calls. */
  fail(error: Error): void;
}

/** For connections that carry the answers of all lanes. */
export function createAnswers(): Answers {
  const waiting = new Map<number, PromiseWithResolvers<string>>();
  let failure: Error | undefined;
  return {
    wait: (id) => {
      if (failure !== undefined) return Promise.reject(failure);
      const waiter = Promise.withResolvers<string>();
      waiting.set(id, waiter);
      return waiter.promise;
    },
    take(answer) {
      // Enough to find who waits, who then checks all of it.
      const id = Number(/"id":(\d+)/u.exec(answer)?.[1]);
      const waiter = waiting.get(id);
      waiting.delete(id);
      if (waiter === undefined) this.fail(new Error(`nobody waits for ${answer.slice(0, 500)}`));
      else waiter.resolve(answer);
    },
    fail(error) {
      failure ??= error;
      for (const { reject } of waiting.values()) reject(error);
      waiting.clear();
    },
  };
}
