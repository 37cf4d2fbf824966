import type { Config } from "../config/config.ts";
import { isLoopback } from "../lib/addresses.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import { type AdminPaths, createAdminPaths, type Readiness } from "./admin/admin.ts";
import { createApiRouter } from "./admin/api-router.ts";
import { consoleRoot, hasConsole } from "./admin/console-files.ts";
import { createJobs } from "./admin/jobs.ts";
import { createQueryThread, queryTargetOf } from "./admin/queries/query-thread.ts";
import type { NoteAction } from "./admin/deps.ts";
import { createOidcPaths } from "./admin/sign-in/oidc-paths.ts";
import { createAdminToken, createSignIn } from "./admin/sign-in/sign-in.ts";
import type { Holds } from "./wiring/holds.ts";
import type { McpServerFactory } from "../transports/in-process.ts";
import type { GatewayOptions } from "./gateway.ts";
import type { Services } from "./services.ts";

/** Everything that operators reach. */
export interface OpenAdmin {
  readonly paths: AdminPaths;
  /** Says where clients connect, and the address of the listener itself. */
  listensAt(url: string, local: string): void;
  /** Creates the server of routes whose upstream is `recordings`. */
  readonly recordingsServer: McpServerFactory;
  close(): Promise<void>;
  /** The console with a one-time ticket; undefined if it was not built, and beyond loopback, where a ticket could be seen. */
  readonly loginPath: () => string | undefined;
}

/** Opens the admin paths of a gateway. */
export function openAdmin(
  { context, heldMessages, audit, identity, cluster }: Services,
  holds: Holds,
  options: Pick<GatewayOptions, "adminToken" | "adminOnSamePort" | "ownCommand" | "version" | "primary">,
  running: () => Config,
  readiness: () => MaybePromise<Readiness>,
): OpenAdmin {
  const { clock, setTimer, log, metrics, noteRefusal } = context;
  const { signIn: oidc, publicUrl } = running().admin || {};
  const { ownCommand = "headgate" } = options;
  const signIn = createSignIn(options.adminToken ?? createAdminToken(), {
    clock,
    setTimer,
    ended: cluster.ended,
    roles: oidc === undefined ? "" : JSON.stringify([oidc.issuer, oidc.clientId, oidc.roleClaim, oidc.roles]),
  });
  const note: NoteAction = ({ name, subject }, action, fields = {}) => {
    const all = { ...fields, caller: name, ...(subject === undefined ? {} : { subject }) };
    log.info(all, action);
    audit.note({ ...all, action });
  };
  let places: { readonly url: string; readonly local: string } | undefined;
  const queries = createQueryThread(queryTargetOf(running()), setTimer);
  const api = createApiRouter({
    clock,
    setTimer,
    log,
    noteRefusal,
    version: options.version ?? "unknown",
    // A path of this machine is not shown to callers who have not signed in.
    ownCommand: /[/\\]/u.test(ownCommand) ? "headgate" : ownCommand,
    config: running,
    clientUrl: () => places?.url,
    localUrl: () => (places !== undefined && /^https?:/u.test(places.local) ? places.local : undefined),
    signIn,
    hasOidc: oidc !== undefined,
    publicUrl,
    note,
    queries,
    replays: createJobs(20),
    calls: createJobs(50, (call) => {
      call.cancel();
    }),
    heldMessages,
    holds,
    health: async () => (await readiness()).routes,
  });
  const oidcPaths =
    oidc === undefined
      ? () => undefined
      : createOidcPaths(oidc, {
          signIn,
          ask: identity.ask,
          clock,
          log,
          note,
          // The listener has checked that the host is one of ours.
          consoleUrl: ({ headers: { host = "" } }) =>
            `${publicUrl?.replace(/\/$/u, "") ?? `http://${host}`}${consoleRoot}/`,
        });
  return {
    listensAt: (url, local) => {
      places = { url, local };
    },
    recordingsServer: async () => {
      // Loaded on demand: the SDK takes a large part of the start-up time.
      const { createRecordingsServer } = await import("./admin/recordings-server.ts");
      return createRecordingsServer({ queries, config: running, wall: clock.wall });
    },
    close: () => queries.close(),
    paths: createAdminPaths(
      async (format) => metrics.text(format, await options.primary?.samples()),
      readiness,
      api,
      oidcPaths,
    ),
    loginPath: () => {
      const { listen, admin } = running();
      const place = options.adminOnSamePort === true ? listen : admin;
      if (place === false || !isLoopback(place.host) || !hasConsole()) return undefined;
      return `${consoleRoot}/#/login/${signIn.issueTicket()}`;
    },
  };
}
