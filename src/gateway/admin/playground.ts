import { randomBytes } from "node:crypto";

import type { Client, Progress } from "@modelcontextprotocol/client";

import { GatewayError } from "../../errors.ts";
import type { SetTimer } from "../../lib/clock.ts";
import { resultText } from "../../recorder/conversation/sentences.ts";

/** Which server to talk to, and as whom. */
export interface PlayTarget {
  /** The endpoint of the route on the gateway itself: a call passes authentication, policy and recording as any other. */
  readonly url: string;
  /** A bearer token, for routes that need one. */
  readonly token?: string | undefined;
  /** The header that puts its messages into a trace. */
  readonly traceparent?: string;
}

/** What a server offers. */
export interface Offers {
  readonly tools: readonly unknown[];
  readonly resources: readonly unknown[];
  readonly prompts: readonly unknown[];
}

/** One request to make. */
export interface PlayRequest {
  readonly method: "tools/call" | "resources/read" | "prompts/get";
  readonly params: Readonly<Record<string, unknown>>;
}

/** What happens during a call. */
export type PlayEvent =
  | { readonly type: "progress"; readonly progress: number; readonly total?: number; readonly message?: string }
  | { readonly type: "question"; readonly question: string; readonly params: unknown }
  | { readonly type: "done"; readonly result: unknown; readonly text: string }
  | { readonly type: "failed"; readonly code?: number; readonly message: string };

/** An answer to a question of the server. */
export interface PlayAnswer {
  readonly action: "accept" | "decline" | "cancel";
  readonly content?: Readonly<Record<string, string | number | boolean | string[]>> | undefined;
}

/** A call that runs or is over. */
export interface PlayCall {
  /** The trace that its messages belong to: finds them in the recording. */
  readonly trace: string;
  /** Everything that happened so far, and from now on. Returns the function that stops listening. */
  listen(listener: (event: PlayEvent) => void): () => void;
  /** False if no such question waits. */
  answer(question: string, answer: PlayAnswer): boolean;
  cancel(): void;
}

const maxEntries = 1000;
/** Questions that wait for an answer at once. */
const maxQuestions = 100;
/** Long enough for a person who answers a question. */
const callMs = 600_000;
/** A call that nobody follows any more is cancelled; a page that lost its connection is back within this time. */
const abandonedMs = 30_000;

/** Asks a server what it offers. */
export async function listOffers(target: PlayTarget): Promise<Offers> {
  const client = await connect(target, () => Promise.resolve({ action: "cancel" }));
  try {
    const { tools, resources, prompts } = client.getServerCapabilities() ?? {};
    return {
      tools: tools === undefined ? [] : (await client.listTools()).tools.slice(0, maxEntries),
      resources: resources === undefined ? [] : (await client.listResources()).resources.slice(0, maxEntries),
      prompts: prompts === undefined ? [] : (await client.listPrompts()).prompts.slice(0, maxEntries),
    };
  } catch (error) {
    throw toProblem(error);
  } finally {
    await client.close();
  }
}

/** Starts a call. It is over with its first `done` or `failed` event. */
export function startCall(target: PlayTarget, { method, params }: PlayRequest, setTimer: SetTimer): PlayCall {
  const trace = randomBytes(16).toString("hex");
  const events: PlayEvent[] = [];
  const listeners = new Set<(event: PlayEvent) => void>();
  const questions = new Map<string, (answer: PlayAnswer) => void>();
  const stop = new AbortController();
  let asked = 0;

  function tell(event: PlayEvent): void {
    // Only the newest progress is kept: a server may report any amount of it.
    const isUpdate = event.type === "progress" && events.at(-1)?.type === "progress";
    events.splice(isUpdate ? -1 : events.length, 1, event);
    for (const listener of listeners) listener(event);
  }

  async function ask(questionParams: unknown): Promise<PlayAnswer> {
    if (questions.size >= maxQuestions) return { action: "cancel" };
    const question = String(++asked);
    return new Promise((resolve) => {
      questions.set(question, resolve);
      tell({ type: "question", question, params: questionParams });
    });
  }

  async function run(): Promise<void> {
    const traceparent = `00-${trace}-${randomBytes(8).toString("hex")}-01`;
    const client = await connect({ ...target, traceparent }, ask, stop.signal);
    try {
      const options = {
        signal: stop.signal,
        timeout: callMs,
        onprogress: ({ progress: done, total, message }: Progress) => {
          // The SDK reports rounds of questions as progress too; the questions are shown already.
          if (message?.startsWith("Fulfilling input required by ") === true) return;
          tell({
            type: "progress",
            progress: done,
            ...(total === undefined ? {} : { total }),
            ...(message === undefined ? {} : { message }),
          });
        },
      };
      // Parameters are not checked here: in a playground, the server's own error is of interest.
      const own = params as never;
      const result = await (method === "tools/call"
        ? client.callTool(own, options)
        : method === "resources/read"
          ? client.readResource(own, options)
          : client.getPrompt(own, options));
      tell({ type: "done", result, text: resultText(result) });
    } finally {
      await client.close();
    }
  }

  run().catch((error: unknown) => {
    const code: unknown = Reflect.get(Object(error), "code");
    tell({
      type: "failed",
      message: error instanceof Error ? error.message : String(error),
      ...(typeof code === "number" ? { code } : {}),
    });
  });

  return {
    trace,
    listen: (listener) => {
      for (const event of events) listener(event);
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
        if (listeners.size === 0)
          setTimer(abandonedMs, () => {
            if (listeners.size === 0) stop.abort();
          });
      };
    },
    answer: (question, answer) => {
      const waiting = questions.get(question);
      questions.delete(question);
      waiting?.(answer);
      return waiting !== undefined;
    },
    cancel: () => {
      stop.abort();
    },
  };
}

async function connect(
  target: PlayTarget,
  ask: (params: unknown) => Promise<PlayAnswer>,
  signal?: AbortSignal,
): Promise<Client> {
  // Loaded on demand: the SDK takes a large part of the start-up time.
  const sdk = await import("@modelcontextprotocol/client");
  const client = new sdk.Client(
    { name: "headgate-console", title: "Headgate console", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: "auto" } },
  );
  client.setRequestHandler("elicitation/create", async ({ params }) => {
    const { action, content } = await ask(params);
    return content === undefined ? { action } : { action, content };
  });
  const { url, token, traceparent } = target;
  const headers = {
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(traceparent === undefined ? {} : { traceparent }),
  };
  try {
    const transport = new sdk.StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    // The SDK does not listen to a signal while it finds out which revision a server speaks.
    const aborted = Promise.withResolvers<never>();
    signal?.addEventListener("abort", () => aborted.reject(new GatewayError("cancelled", "cancelled")));
    signal?.throwIfAborted();
    await Promise.race([client.connect(transport), aborted.promise]);
  } catch (error) {
    await client.close();
    throw toProblem(error);
  }
  return client;
}

/** What the server or the gateway said, for the person who tries things out. */
function toProblem(error: unknown): GatewayError {
  const message = error instanceof Error ? error.message : String(error);
  const isUnauthorized = /\b401\b|unauthori[sz]ed/iu.test(message);
  return new GatewayError("upstream_unreachable", isUnauthorized ? "this route needs a token" : message, {
    cause: error,
  });
}
