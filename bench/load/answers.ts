/** A request as the benchmark's servers read it; their clients are known to send nothing else. */
export interface Ask {
  readonly id: number | string;
  readonly method: string;
  readonly params?: {
    readonly name?: string;
    readonly protocolVersion?: string;
    readonly _meta?: { readonly progressToken?: number | string };
  };
}

/** Whether a message wants an answer. */
export function isAsk(message: unknown): message is Ask {
  return typeof message === "object" && message !== null && "id" in message && "method" in message;
}

const capabilities = { tools: {} };
const serverInfo = { name: "bench", version: "1.0.0" };

/** What `initialize` is answered: whatever revision is asked for. */
export function initializeResultFor({ params }: Ask): string {
  return JSON.stringify({ protocolVersion: params?.protocolVersion ?? "2025-11-25", capabilities, serverInfo });
}

/** What `server/discover` is answered. */
export const discoverResult = JSON.stringify({
  resultType: "complete",
  supportedVersions: ["2026-07-28"],
  capabilities,
  ttlMs: 3_600_000,
  cacheScope: "public",
});

/** What `tools/list` is answered. */
export const toolsResult = JSON.stringify({
  resultType: "complete",
  tools: ["echo", "stream", "ask"].map((name) => ({ name, inputSchema: { type: "object" } })),
  ttlMs: 3_600_000,
  cacheScope: "public",
});

/** What every call is answered. */
export const toolResult = JSON.stringify({
  resultType: "complete",
  content: [{ type: "text", text: "the weather is fine and will stay so" }],
});

/** A progress notification that says when it was sent, in nanoseconds of the clock that all processes share. */
export function progressOf({ id, params }: Ask, sentAt: bigint): string {
  const progressToken = params?._meta?.progressToken ?? id;
  return JSON.stringify({
    jsonrpc: "2.0",
    method: "notifications/progress",
    params: { progressToken, progress: 1, message: String(sentAt) },
  });
}

/** A question in the middle of a call, which the call then waits for. */
export function questionOf({ id }: Ask): string {
  return JSON.stringify({
    jsonrpc: "2.0",
    id: `question-${id}`,
    method: "elicitation/create",
    params: {
      message: "Which berth shall it be, and until when?",
      requestedSchema: {
        type: "object",
        properties: { berth: { type: "string" }, until: { type: "string" } },
      },
    },
  });
}
