import {
  classifyPost,
  createLineReader,
  createSseDecoder,
  decodeHeaderValue,
  decodeLabel,
  encodeHeaderValue,
  encodeSseMessage,
  frameLine,
  parseHeaderParameters,
  loadSchemaValidator,
  metadataOf,
  mirroredHeadersOf,
  parse,
  revisionNames,
  validate,
  validationSettings,
} from "../../src/protocol/index.ts";
import type { Message } from "../../src/protocol/index.ts";
import { mcpContextOf } from "../../src/protocol/http/mcp-context.ts";
import { finalResponseOf } from "../../src/protocol/sse/final-response.ts";

/** Takes any bytes and must not throw. */
export type FuzzTarget = (input: Buffer) => void;

const schema = await loadSchemaValidator("2026-07-28");
const settings = validationSettings("enforce", { method: "warn", schema: "warn" });

function messagesOf(input: Buffer): readonly Message[] {
  return revisionNames.flatMap((revision) => {
    const modes = ["enforce", "observe"] as const;
    return modes.flatMap((mode) => {
      const outcome = parse(input, { revision, mode });
      if (!outcome.ok) return [];
      return (outcome.form === "single" ? [outcome] : outcome.members).flatMap((member) =>
        member.ok ? [member.message] : [],
      );
    });
  });
}

/** Every part of the protocol core that reads bytes or text of a peer. */
export const fuzzTargets: readonly (readonly [name: string, target: FuzzTarget])[] = [
  [
    "parse and metadata",
    (input) => {
      for (const message of messagesOf(input)) metadataOf(message);
    },
  ],
  [
    "validation",
    (input) => {
      for (const message of messagesOf(input)) {
        validate(message, { revision: "2026-07-28", direction: "client-to-server", settings, schema });
      }
    },
  ],
  [
    "era and headers",
    (input) => {
      const text = input.toString("latin1");
      for (const revision of revisionNames) {
        const outcome = parse(input, { revision, mode: "enforce" });
        classifyPost(outcome, () => text, { eras: "both", supported: revisionNames });
      }
      for (const message of messagesOf(input)) {
        if (message.kind === "request" || message.kind === "notification") mirroredHeadersOf(message, "2026-07-28");
      }
    },
  ],
  [
    "event stream",
    (input) => {
      const decoder = createSseDecoder({
        maxEventBytes: 1000,
        onEvent: () => {},
        onComment: () => {},
        onRetry: () => {},
      });
      const cut = input.length >> 1;
      decoder.push(input.subarray(0, cut));
      decoder.push(input.subarray(cut));
      decoder.end();
      encodeSseMessage(input);
      finalResponseOf({ enableMcp: true, contentType: "text/event-stream", body: input });
    },
  ],
  [
    "lines",
    (input) => {
      const reader = createLineReader({ maxLineBytes: 500, onLine: () => {}, onOverflow: () => {} });
      for (const byte of input) reader.push(Buffer.from([byte]));
      reader.end();
      frameLine(input);
    },
  ],
  [
    "labels and header values",
    (input) => {
      const text = input.toString("utf8");
      decodeLabel(text);
      decodeHeaderValue(text);
      encodeHeaderValue(text);
    },
  ],
  [
    "schemas and contexts",
    (input) => {
      mcpContextOf(input, { enableMcp: true, nonMcpJson: "refuse" });
      const outcome = parse(input, { revision: "2026-07-28", mode: "observe" });
      if (outcome.ok) parseHeaderParameters(JSON.parse(input.toString()));
    },
  ],
];
