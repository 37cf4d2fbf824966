import * as z from "zod";

import { isObject } from "../lib/is-object.ts";
import { withoutUndefined } from "../lib/without-undefined.ts";
import type { ConfigFinding } from "./issues.ts";
import { reservedNames, upstreamConfig } from "./routes.ts";
import { closestName } from "../lib/closest-name.ts";

const transports = {
  http: "streamable-http",
  "streamable-http": "streamable-http",
  streamable_http: "streamable-http",
  streamableHttp: "streamable-http",
  sse: "sse",
  stdio: undefined,
} as const;

type TransportName = keyof typeof transports;

const mcpServerShape = {
  command: z.string().optional().describe("Program to start."),
  args: z.array(z.string()).optional().describe("Arguments of the program."),
  env: z
    .record(z.string(), z.string().meta({ writeOnly: true }))
    .optional()
    .describe("Environment variables of the program."),
  cwd: z.string().optional().describe("Working directory of the program."),
  type: z
    .enum(Object.keys(transports) as [TransportName, ...TransportName[]])
    .optional()
    .describe("Transport of the server. Default: detect it."),
  url: z.string().optional().describe("URL of the MCP endpoint."),
  headers: z
    .record(z.string(), z.string().meta({ writeOnly: true }))
    .optional()
    .describe("Headers to send with every request."),
  disabled: z.boolean().optional().describe("Ignore this entry."),
};

/** One entry of `mcpServers`, in the format of MCP clients; parsed, it is the `upstream` of a route. */
export const mcpServerConfig = z
  .looseObject(mcpServerShape)
  .transform((entry, context): unknown => {
    const { type, command, args, env, cwd, url, headers } = entry;
    const problem = problemOf(entry);
    if (problem !== undefined) {
      context.addIssue({ code: "custom", ...problem });
      return z.NEVER;
    }
    const transport = type === undefined ? undefined : transports[type];
    return withoutUndefined({ command, args, env, cwd, url, headers, transport });
  })
  .pipe(upstreamConfig as z.ZodType<z.output<typeof upstreamConfig>>);

interface ServerForm {
  readonly command?: string | undefined;
  readonly url?: string | undefined;
  readonly type?: TransportName | undefined;
}

function problemOf({ command, url, type }: ServerForm): { path: string[]; message: string } | undefined {
  if (command === undefined && url === undefined) return { path: [], message: "needs `command` or `url`" };
  if (command !== undefined && url !== undefined) return { path: [], message: "has both `command` and `url`" };
  if (type === undefined || (type === "stdio") === (command !== undefined)) return undefined;
  return { path: ["type"], message: `\`${type}\` needs \`${type === "stdio" ? "command" : "url"}\`` };
}

/** A configuration tree without what other tools put there, and what to report about that. */
export interface CleanedTree {
  readonly tree: unknown;
  readonly problems: readonly ConfigFinding[];
  readonly warnings: readonly ConfigFinding[];
}

/** Removes disabled entries and unknown keys from `mcpServers`; a key that looks misspelt is a problem, others a warning. */
export function cleanMcpServers(tree: unknown): CleanedTree {
  const problems: ConfigFinding[] = [];
  const warnings: ConfigFinding[] = [];
  if (!isObject(tree) || !isObject(tree["mcpServers"])) return { tree, problems, warnings };
  const entries = Object.entries(tree["mcpServers"])
    .filter(([, entry]) => !(isObject(entry) && entry["disabled"] === true))
    .map(([name, entry]) => {
      if (!isObject(entry)) return [name, entry] as const;
      const path = ["mcpServers", name];
      const kept = Object.entries(entry).filter(([key]) => {
        if (Object.hasOwn(mcpServerShape, key)) return true;
        const meant = closestName(key, Object.keys(mcpServerShape));
        if (meant === undefined) warnings.push({ path, key, message: `\`${key}\` is ignored` });
        else problems.push({ path, key, message: `unknown key \`${key}\`; did you mean \`${meant}\`?` });
        return false;
      });
      return [name, Object.fromEntries(kept)] as const;
    });
  return { tree: { ...tree, mcpServers: Object.fromEntries(entries) }, problems, warnings };
}

/** A route name for the name of a server, which may be any text; undefined if nothing usable is left. */
export function routeNameOf(server: string): string | undefined {
  const name = server
    .toLowerCase()
    .replaceAll(/[^\d._a-z-]+/gu, "-")
    .replaceAll(/^[._-]+|-+$/gu, "")
    .slice(0, 100);
  if (name === "") return undefined;
  return reservedNames.has(name) ? `${name}-server` : name;
}

/** A name for a server of a federation; undefined if nothing usable is left. */
export function memberNameOf(server: string): string | undefined {
  const name = server
    .replaceAll(/[^\w-]+/gu, "-")
    .replaceAll(/_{2,}/gu, "_")
    .slice(0, 32)
    .replaceAll(/^[_-]+|[_-]+$/gu, "");
  return name === "" ? undefined : name;
}
