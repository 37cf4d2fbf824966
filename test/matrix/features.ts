import type { Meeting } from "./places.ts";

/** Something that a client and a server do with each other. */
export interface Feature {
  readonly name: string;
  /** What the test does to find out. */
  readonly probe: string;
  /** Why the two cannot have it; undefined where they can. */
  readonly obstacle: (meeting: Meeting) => string | undefined;
}

const always = (): undefined => undefined;
const isHttp = (transport: Meeting["server"]["transport"]): boolean => transport === "Streamable HTTP";

/**
 * Every feature, in the order of the table. The end-to-end test tries each in every meeting and fails where one works
 * that cannot, or cannot that works; the page is made of the same list.
 */
export const features = [
  { name: "tools", probe: "lists the tools, calls one, and gets a tool's own error", obstacle: always },
  { name: "resources", probe: "lists and reads resources, templates among them", obstacle: always },
  { name: "prompts", probe: "lists the prompts and gets one with arguments", obstacle: always },
  { name: "completion", probe: "asks for completions of an argument", obstacle: always },
  { name: "unknown names", probe: "calls a tool that does not exist and is told so", obstacle: always },
  { name: "progress", probe: "gets the reports of a running call in their order", obstacle: always },
  { name: "cancellation", probe: "gives a running call up, and the server hears of it", obstacle: always },
  { name: "elicitation", probe: "is asked for input in the middle of a call", obstacle: always },
  { name: "sampling", probe: "is asked for its model's words in the middle of a call", obstacle: always },
  { name: "roots", probe: "is asked for its roots in the middle of a call", obstacle: always },
  {
    name: "list changes",
    probe: "hears that the tools have changed",
    obstacle: always,
  },
  { name: "resource updates", probe: "subscribes to a resource and hears of its change", obstacle: always },
  {
    name: "log messages",
    probe: "sets a level and gets what a call logs",
    obstacle: ({ client, server }) =>
      client.era === "modern" && server.era === "modern" && !isHttp(server.transport)
        ? "2026-07-28 over stdio, which is also how servers in this process are spoken to, does not say which request a log message belongs to"
        : undefined,
  },
] as const satisfies readonly Feature[];

export type FeatureName = (typeof features)[number]["name"];
