import { isDeepStrictEqual } from "node:util";

import type { CallToolResult, ContentBlock } from "@modelcontextprotocol/client";

/** The result of a tool for people: its texts, what else there is in a line each, then structured content as JSON. */
export function formatResult({ content, structuredContent }: CallToolResult): string {
  const blocks = content.map(formatBlock);
  // Servers are told to repeat structured content as text for old clients; once is enough.
  const isRepeated = content.some(
    (block) => block.type === "text" && isJsonOf(block.text, structuredContent),
  );
  if (structuredContent !== undefined && !isRepeated)
    blocks.push(JSON.stringify(structuredContent, undefined, 2));
  return blocks.map((block) => (block.endsWith("\n") ? block : `${block}\n`)).join("");
}

function formatBlock(block: ContentBlock): string {
  switch (block.type) {
    case "text":
      return block.text;
    case "image":
    case "audio":
      return notShown(block.mimeType, block.data);
    case "resource": {
      const { resource } = block;
      return "text" in resource
        ? resource.text
        : `${resource.uri} ${notShown(resource.mimeType, resource.blob)}`;
    }
    case "resource_link":
      return `${block.name}: ${block.uri}`;
    default:
      return "[content of an unknown kind; --json shows it]";
  }
}

function notShown(mimeType: string | undefined, base64: string): string {
  const bytes = Buffer.byteLength(base64, "base64");
  return `[${mimeType ?? "data"}, ${bytes} B; --json has it in base64]`;
}

function isJsonOf(text: string, value: unknown): boolean {
  try {
    return isDeepStrictEqual(JSON.parse(text), value);
  } catch {
    return false;
  }
}
