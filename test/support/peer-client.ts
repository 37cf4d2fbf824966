import { z } from "zod";

/** Where a server is and how to reach it. */
export type Peer =
  | { readonly via: "http" | "sse"; readonly url: string; readonly headers?: Readonly<Record<string, string>> }
  | { readonly via: "stdio"; readonly command: readonly [string, ...string[]] };

/** A connected client of an official SDK, with the same face for every version of it. */
export interface PeerClient extends AsyncDisposable {
  /** The revision that both sides agreed on. */
  readonly revision: string | undefined;
  /** The methods of the questions that the server has asked so far. */
  readonly asked: readonly string[];
  /** The notifications that have come so far, except progress. */
  readonly notified: readonly ReceivedNotification[];
  readonly listTools: () => Promise<readonly string[]>;
  /** Calls a tool and resolves with the texts of its result. */
  readonly callTool: (name: string, options?: CallOptions) => Promise<ToolOutcome>;
  /** The texts of a resource. */
  readonly readResource: (uri: string) => Promise<readonly string[]>;
  /** The texts of a prompt's messages. */
  readonly getPrompt: (name: string, args?: Readonly<Record<string, string>>) => Promise<readonly string[]>;
}

/** What to call a tool with. */
export interface CallOptions {
  readonly args?: Readonly<Record<string, unknown>>;
  /** Asks for progress and gets each report as it comes. */
  readonly onProgress?: (progress: number) => void;
  readonly signal?: AbortSignal;
}

/** What a tool answered. */
export interface ToolOutcome {
  readonly isError: boolean;
  readonly texts: readonly string[];
}

/** A notification as the SDK handed it over. */
export interface ReceivedNotification {
  readonly method: string;
  readonly params?: unknown;
}

/** Who our clients say they are. */
export const clientIdentity = { name: "headgate-tests", version: "1.0.0" };

/** What our clients can be asked, in the form that every revision takes. */
export const clientCapabilities = { sampling: {}, elicitation: {}, roots: {} };

/** The answers that our clients give. */
export const clientAnswers = {
  elicitation: (params: unknown) => ({ action: "accept" as const, content: filled(form.parse(params)) }),
  sampling: () => ({
    role: "assistant" as const,
    model: "test-model",
    content: { type: "text" as const, text: "Paris" },
  }),
  roots: () => ({ roots: [{ uri: "file:///tests", name: "tests" }] }),
};

const progressNotification = z.looseObject({
  method: z.literal("notifications/progress"),
  params: z.looseObject({ progress: z.number() }),
});
const toolResult = z.looseObject({
  isError: z.boolean().default(false),
  content: z.array(z.looseObject({ text: z.string().optional() })),
});
const resourceResult = z.looseObject({ contents: z.array(z.looseObject({ text: z.string().optional() })) });
const promptResult = z.looseObject({
  messages: z.array(z.looseObject({ content: z.looseObject({ text: z.string().optional() }) })),
});

/**
 * Hands out progress as it comes from the wire. The SDKs lose reports that arrive in one piece with the result, which is
 * often so on a busy machine; both call what was set as `onmessage` before they connect, so this hears all of them.
 */
export class ProgressReports {
  readonly #listeners = new Set<(progress: number) => void>();

  readonly onMessage = (message: unknown): void => {
    const report = progressNotification.safeParse(message);
    if (report.success) for (const listener of this.#listeners) listener(report.data.params.progress);
  };

  /** Runs a call that asks for progress; one at a time for each client, as a report is not told apart by its token. */
  async during<T>(listener: ((progress: number) => void) | undefined, call: () => Promise<T>): Promise<T> {
    if (listener === undefined) return call();
    this.#listeners.add(listener);
    try {
      return await call();
    } finally {
      this.#listeners.delete(listener);
    }
  }
}

/** Reads the result of `tools/call`. */
export function toolOutcome(result: unknown): ToolOutcome {
  const { isError, content } = toolResult.parse(result);
  return { isError, texts: texts(content) };
}

/** Reads the result of `resources/read`. */
export function resourceTexts(result: unknown): readonly string[] {
  return texts(resourceResult.parse(result).contents);
}

/** Reads the result of `prompts/get`. */
export function promptTexts(result: unknown): readonly string[] {
  return texts(promptResult.parse(result).messages.map(({ content }) => content));
}

function texts(blocks: readonly { readonly text?: string | undefined }[]): string[] {
  return blocks.flatMap(({ text }) => (text === undefined ? [] : [text]));
}

const form = z.looseObject({
  requestedSchema: z.looseObject({ properties: z.record(z.string(), z.looseObject({ type: z.string() })) }),
});

/** Fills every field with something of its type. */
function filled({ requestedSchema }: z.infer<typeof form>): Record<string, string | number | boolean | string[]> {
  const entries = Object.entries(requestedSchema.properties).map(([name, { type }]) => [name, valueOf(type)]);
  return Object.fromEntries(entries) as Record<string, ReturnType<typeof valueOf>>;
}

function valueOf(type: string): string | number | boolean | string[] {
  switch (type) {
    case "boolean":
      return true;
    case "integer":
    case "number":
      return 1;
    case "array":
      return [];
    default:
      return "Ada";
  }
}
