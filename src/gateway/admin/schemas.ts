import * as z from "zod";

/** No members. */
export const nothing = z.strictObject({});

/** A route, as the console shows it. */
export const routeAbout = z.strictObject({
  name: z.string(),
  paths: z.array(z.string()),
  upstream: z.string().describe("`http`, `stdio`, `demo` or `in-process`."),
  health: z.string(),
  policy: z.enum(["none", "rules", "authzen", "pingAuthorize"]),
});

/** {@link routeAbout} */
export type RouteAbout = z.output<typeof routeAbout>;

/** Who is signed in, and what this gateway is. */
export const about = z.strictObject({
  version: z.string(),
  ownCommand: z.string().describe("The command that starts Headgate for the user of the gateway."),
  now: z.number().describe("The gateway's clock, in milliseconds since 1970."),
  caller: z.strictObject({
    name: z.string(),
    rights: z.array(z.enum(["view", "bodies", "operate", "approve"])),
  }),
  clientUrl: z.string().optional().describe("Where clients connect; the paths of routes follow."),
  recording: z.boolean().describe("Whether traffic is recorded."),
  drift: z.enum(["warn", "hide", "block"]).optional().describe("What happens to definitions that are not approved."),
  held: z.number().describe("How many messages are held and wait for a person."),
  routes: z.array(routeAbout),
});

/** {@link about}, as the console reads it. */
export type About = z.output<typeof about>;
