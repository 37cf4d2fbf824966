import type { ConfigInput } from "../../src/config/schema.ts";
import { closed, closedUris, open } from "./vault.ts";

/** The same policy said in each of the ways that rules can say it: what is open is allowed and nothing else. */
export const allowing = {
  "rules that allow": {
    rules: [
      { id: "open-tool", allow: `mcp.method == "tools/call" && mcp.tool == "${open.tool}"` },
      { id: "open-prompt", allow: `mcp.method == "prompts/get" && mcp.prompt == "${open.prompt}"` },
      { id: "open-resource", allow: `mcp.method == "resources/read" && mcp.resource == "${open.resource}"` },
    ],
  },
  "lists of names that there are": {
    tools: { allow: [open.tool] },
    prompts: { allow: [open.prompt] },
    resources: { allow: [open.resource] },
    rules: [{ id: "named", allow: 'mcp.method in ["tools/call", "prompts/get", "resources/read"]' }],
  },
} satisfies Readonly<Record<string, NonNullable<ConfigInput["policy"]>>>;

const closedResources = [closed.resource, ...closedUris];

/** Only what is closed is denied: safe with servers that take names as they are written. */
export const denying = {
  "rules that deny": {
    rules: [
      {
        id: "closed",
        deny: `mcp.tool == "${closed.tool}" || mcp.prompt == "${closed.prompt}" || mcp.resource in ${JSON.stringify(closedResources)}`,
      },
      { id: "rest", allow: "true" },
    ],
  },
  "lists of denied names": {
    tools: { deny: [closed.tool] },
    prompts: { deny: [closed.prompt] },
    resources: { deny: closedResources },
  },
} satisfies Readonly<Record<string, NonNullable<ConfigInput["policy"]>>>;
