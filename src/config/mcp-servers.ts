import * as z from "zod";

import { isObject } from "../lib/is-object.ts";
import type { ConfigFinding } from "./problem.ts";
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
  command: z.string().optional().describe("The program to start."),
  args: z.array(z.string()).optional().describe("Its arguments, one each."),
  env: z
    .record(z.string(), z.string().meta({ writeOnly: true }))
    .optional()
    .describe("Environment variables for it."),
  cwd: z.string().optional().describe("Its working directory."),
  type: z
    .enum(Object.keys(transports) as [TransportName, ...TransportName[]])
    .optional()
    .describe("The transport of the server; found out where it is not given."),
  url: z.string().optional().describe("The endpoint of a server that runs already."),
  headers: z
    .record(z.string(), z.string().meta({ writeOnly: true }))
    .optional()
    .describe("Headers sent with every request."),
  disabled: z.boolean().optional().describe("Leaves the route out."),
};

/** One entry of `mcpServers`, as MCP clients write it; read, it is the same as the `upstream` of a route. */
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
    return defined({ command, args, env, cwd, url, headers, transport });
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
  return { path: ["type"], message: `\`${type}\` goes with \`${type === "stdio" ? "command" : "url"}\`` };
}

/** What of a tree is left to be read, and what is to be said about the rest. */
export interface CleanedTree {
  readonly tree: unknown;
  readonly problems: readonly ConfigFinding[];
  readonly warnings: readonly ConfigFinding[];
}

/**
 * Takes out of `mcpServers` what is switched off, and the keys that other tools put there. A key that looks like a
 * slip of one of ours is a problem; any other is only mentioned.
 */
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

/** The route name for a server's name, which may be any text; undefined where nothing of it is left. */
export function routeNameOf(server: string): string | undefined {
  const name = server
    .toLowerCase()
    .replaceAll(/[^\d._a-z-]+/gu, "-")
    .replaceAll(/^[._-]+|-+$/gu, "")
    .slice(0, 100);
  if (name === "") return undefined;
  return reservedNames.has(name) ? `${name}-server` : name;
}

function defined(values: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined));
}
