import type { RequestListener } from "node:http";

import type { Config } from "../config/config.ts";
import { GatewayError } from "../errors.ts";
import { adminListener } from "./admin/admin.ts";
import type { GatewayContext, PrimarySeat } from "./context.ts";
import { adminAccessRulesOf, createAccessControl } from "./edge/access.ts";
import {
  createHttpListener,
  type HttpListener,
  type HttpListenOptions,
  type UnreadableRequest,
} from "./edge/listener.ts";
import type { HttpRouter } from "./edge/router.ts";
import type { GatewayOptions, ListeningGateway } from "./gateway.ts";
import type { OpenAdmin } from "./open-admin.ts";
import type { Services } from "./services.ts";
import type { ListenForPeers } from "./wiring/cluster.ts";

/** What listening needs of the gateway. */
export interface ListenDeps
  extends
    Pick<GatewayOptions, "adminOnSamePort" | "worker" | "primary" | "passedSocket">,
    Pick<Services, "context" | "cluster" | "recording"> {
  readonly router: HttpRouter;
  readonly admin: OpenAdmin;
}

/** Listens for clients, and for operators where they have a listener of their own. */
export async function openListeners(
  config: Config,
  deps: ListenDeps,
  opened: HttpListener[],
): Promise<ListeningGateway> {
  const { router, admin, context, cluster, adminOnSamePort = false, worker, primary } = deps;
  if (primary !== undefined) return listenWithWorkers(config, deps, primary, opened);
  await cluster.start(peerListener(config, router.handlePeer, context), context.registry);
  const main = await openMainListener(config, router.handle, context, {
    isShared: worker !== undefined,
    hasPeers: worker === undefined && config.cluster !== undefined,
    passedSocket: deps.passedSocket,
  });
  opened.push(main);
  const url = config.listen.publicUrl ?? main.address;
  admin.listensAt(url, main.address);
  if (adminOnSamePort) return { url, ...adminUrls(main.address, admin) };
  const own = worker === undefined ? await openAdminListener(config, deps, opened) : undefined;
  if (own === undefined) return { url, adminUrl: undefined, consoleUrl: undefined };
  return { url, ...adminUrls(own.address, admin) };
}

/** Listens for operators; for clients, the workers do. */
async function listenWithWorkers(
  config: Config,
  deps: ListenDeps,
  primary: PrimarySeat,
  opened: HttpListener[],
): Promise<ListeningGateway> {
  const { admin, adminOnSamePort = false, recording } = deps;
  const own = await openAdminListener(config, deps, opened, adminOnSamePort ? primary.adminSocket : undefined);
  // Fails as one process would: several can listen on a port that another gateway has.
  const probe = await openMainListener(config, () => {}, deps.context, {});
  const { address } = probe;
  await probe.close();
  await primary.start(address, recording?.store ?? notRecording);
  const url = config.listen.publicUrl ?? address;
  admin.listensAt(url, address);
  if (own === undefined) return { url, adminUrl: undefined, consoleUrl: undefined };
  return { url, ...adminUrls(adminOnSamePort ? address : own.address, admin) };
}

async function openAdminListener(
  config: Config,
  { admin, context }: ListenDeps,
  opened: HttpListener[],
  unixSocket?: string,
): Promise<HttpListener | undefined> {
  if (config.admin === false && unixSocket === undefined) return undefined;
  const place = config.admin === false ? { host: "", port: 0 } : config.admin;
  const own = await createHttpListener(
    {
      ...place,
      unixSocket,
      portSetting: "--admin-port or `admin.port`",
      headerBytes: config.limits.headerBytes,
      bodyMs: config.timeouts.body,
      onRefused: refusalOf(context),
    },
    // Requests on the socket have been checked by a worker.
    adminListener(
      context,
      admin.paths,
      unixSocket === undefined ? createAccessControl(adminAccessRulesOf(config), []) : { problem: () => undefined },
    ),
  );
  opened.push(own);
  return own;
}

function openMainListener(
  { listen, limits, timeouts }: Config,
  handle: RequestListener,
  context: GatewayContext,
  socket: Pick<HttpListenOptions, "isShared" | "hasPeers" | "passedSocket">,
): Promise<HttpListener> {
  const { tls, unixSocket, socketMode, host, port } = listen;
  return createHttpListener(
    {
      host,
      port,
      portSetting: "--port or `listen.port`",
      ...socket,
      unixSocket,
      socketMode,
      tls,
      headerBytes: limits.headerBytes,
      bodyMs: timeouts.body,
      onRefused: refusalOf(context),
      onCertificate: (problem) => {
        logCertificate(context, problem);
      },
    },
    handle,
  );
}

/** Notes requests that never reached a handler. */
function refusalOf({ noteRefusal }: GatewayContext): (refused: UnreadableRequest) => void {
  return ({ code, status, reason, peer }) => {
    const transport = {
      type: "http",
      method: "",
      path: "",
      headers: {},
      ...(peer === undefined ? {} : { peer }),
    } as const;
    noteRefusal({ route: undefined, code, status, reason, transport });
  };
}

function notRecording(): never {
  throw new GatewayError("internal", "nothing is recorded here");
}

/** Listens for other gateways, where there are some. */
function peerListener(
  { cluster, limits, timeouts }: Config,
  handle: RequestListener,
  context: GatewayContext,
): ListenForPeers {
  return async (onRenewed) => {
    if (cluster === undefined) return undefined;
    const { listen, tls } = cluster;
    // The client's headers and, sealed, what is known of the caller.
    const bounds = {
      headerBytes: 4 * limits.headerBytes,
      bodyMs: timeouts.body,
      onRefused: refusalOf(context),
    };
    const onCertificate = (problem: string | undefined): void => {
      if (problem === undefined) onRenewed();
      logCertificate(context, problem);
    };
    return createHttpListener(
      { ...listen, tls, portSetting: "`cluster.listen.port`", ...bounds, onCertificate },
      handle,
    );
  };
}

function logCertificate({ log }: Pick<GatewayContext, "log">, problem: string | undefined): void {
  if (problem === undefined) log.info({}, "reloaded the certificate");
  else log.warn({ problem }, "cannot use the new certificate; keeping the old one");
}

function adminUrls(adminUrl: string, { loginPath }: OpenAdmin): Omit<ListeningGateway, "url"> {
  const path = loginPath();
  return { adminUrl, consoleUrl: path === undefined ? undefined : `${adminUrl}${path}` };
}
