import type { IncomingMessage } from "node:http";

import * as z from "zod";

import { GatewayError } from "../../../errors.ts";
import type { AdminDeps } from "../deps.ts";
import { defineEndpoint } from "../endpoint.ts";
import { owner } from "../sign-in/sign-in.ts";
import { about, nothing, type RouteAbout } from "../schemas.ts";

/** `POST /session`: exchanges the ticket of a one-time link for a cookie. */
export const signInByTicket = defineEndpoint({
  method: "POST",
  path: "/session",
  name: "signIn",
  summary: "Exchange the ticket of a one-time link for a cookie. Each ticket works once.",
  right: "none",
  pathSchema: nothing,
  query: nothing,
  body: z.strictObject({ ticket: z.string().max(2000) }),
  result: nothing,
  handle: ({ body, http: { request, response, isSecure } }, { signIn, note }) => {
    const cookie = signIn.redeem(body.ticket, { headers: request.headers, isSecure });
    if (cookie === undefined)
      throw new GatewayError("unauthenticated", "this link was used already or is too old: run `headgate console`");
    response.setHeader("set-cookie", cookie);
    note(owner, "signed in to the console");
    return {};
  },
});

/** `GET /session`: whether the caller is signed in, and how to sign in. */
export const getSession = defineEndpoint({
  method: "GET",
  path: "/session",
  name: "getSession",
  summary: "Whether the caller is signed in, until when, and whether people can sign in by OpenID Connect.",
  right: "none",
  pathSchema: nothing,
  query: nothing,
  result: z.strictObject({
    signedIn: z.boolean(),
    until: z.number().optional().describe("When the session ends, in milliseconds since 1970."),
    oidc: z.boolean(),
    command: z.string().describe("The command that makes a link to sign in, on the machine of the gateway."),
  }),
  handle: ({ caller: { session, rights }, http: { request } }, { hasOidc, ownCommand }) => ({
    signedIn: rights.length > 0,
    ...(session === undefined ? {} : { until: session.until }),
    oidc: hasOidc,
    command: `${ownCommand} console${placeOf(request)}`,
  }),
});

/** The ports at which the command looks for a gateway itself. */
const defaultPorts: readonly (number | undefined)[] = [8484, 8485];

/** Where the command finds this gateway, unless it looks there anyway. Links are for loopback. */
function placeOf({ socket }: IncomingMessage): string {
  const { localPort, localAddress } = socket;
  if (defaultPorts.includes(localPort)) return "";
  const scheme = "encrypted" in socket ? "https" : "http";
  return ` --url ${scheme}://${localAddress === "::1" ? "[::1]" : "127.0.0.1"}:${localPort ?? ""}`;
}

/** `DELETE /session`: signs out. */
export const signOut = defineEndpoint({
  method: "DELETE",
  path: "/session",
  name: "signOut",
  summary: "Sign out: the session ends on the gateway, with all its streams.",
  right: "none",
  pathSchema: nothing,
  query: nothing,
  result: nothing,
  handle: ({ caller, http: { request, response } }, { signIn, note }) => {
    if (caller.session !== undefined) note(caller, "signed out of the console");
    response.setHeader("set-cookie", signIn.end(caller, request.headers));
    return {};
  },
});

/** `GET /about`: who is signed in, and what this gateway is. */
export const aboutGateway = defineEndpoint({
  method: "GET",
  path: "/about",
  name: "about",
  summary: "Who is signed in, and which routes this gateway has.",
  right: "view",
  pathSchema: nothing,
  query: nothing,
  result: about,
  handle: async ({ caller }, deps) => {
    const { version, ownCommand, config, clientUrl, clock, queries, heldMessages } = deps;
    const { record, drift } = config();
    // The console shows traffic next, so the reader is started now.
    queries.prepare();
    return {
      version,
      ownCommand,
      now: clock.wall(),
      caller: { name: caller.name, rights: [...caller.rights] },
      clientUrl: clientUrl(),
      recording: record !== undefined && record !== false,
      drift: drift === undefined ? undefined : drift.mode,
      held: heldMessages.list().length,
      routes: await routesOf(deps),
    };
  },
});

/** The routes as the console shows them. */
export async function routesOf({ config, health }: Pick<AdminDeps, "config" | "health">): Promise<RouteAbout[]> {
  const states = await health();
  return Object.values(config().routes).map((route) => ({
    name: route.name,
    paths: route.prefixes.map((prefix) => `${prefix}/mcp`),
    upstream: route.upstream.type,
    health: states[route.name] ?? "unknown",
    policy: policyKind(route.policy),
  }));
}

function policyKind(
  policy: { readonly authzen?: unknown; readonly pingAuthorize?: unknown } | undefined,
): RouteAbout["policy"] {
  if (policy === undefined) return "none";
  return policy.pingAuthorize === undefined ? (policy.authzen === undefined ? "rules" : "authzen") : "pingAuthorize";
}
