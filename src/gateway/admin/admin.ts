import type { RequestListener } from "node:http";
import type { MaybePromise } from "../../lib/is-promise.ts";
import { type ExpositionFormat, expositionTypes } from "../../telemetry/metrics.ts";
import type { AccessControl } from "../edge/access.ts";
import { requestHeadProblem } from "../edge/request-head.ts";
import { refuseText, respondText } from "../edge/router.ts";
import type { GatewayContext } from "../context.ts";
import { apiRoot } from "./api-router.ts";
import { consoleRoot, createConsoleFiles } from "./console-files.ts";

/** Whether the gateway is ready. */
export interface Readiness {
  readonly isReady: boolean;
  /** The health of each route's upstream, by route name. */
  readonly routes: Readonly<Record<string, string>>;
}

/** Finds what is served at a path; undefined where nothing is. */
export type AdminPaths = (path: string) => RequestListener | undefined;

/** The paths for operators: readiness, metrics for Prometheus, the admin API and the console. */
export function createAdminPaths(
  metrics: (format: ExpositionFormat) => MaybePromise<string>,
  readiness: () => MaybePromise<Readiness>,
  api: RequestListener,
  oidc: AdminPaths,
): AdminPaths {
  const plain: Readonly<Record<string, RequestListener>> = {
    "/readyz": waiting(async (_request, response) => {
      const { isReady, routes } = await readiness();
      const body = Buffer.from(`${JSON.stringify({ ready: isReady, routes })}\n`);
      response.writeHead(isReady ? 200 : 503, {
        "content-type": "application/json",
        "content-length": body.length,
      });
      response.end(body);
    }),
    "/metrics": waiting(async (request, response) => {
      // Prometheus asks for OpenMetrics if it stores exemplars.
      const isOpenMetrics = request.headers.accept?.includes("application/openmetrics-text") === true;
      const format = isOpenMetrics ? "openmetrics" : "prometheus";
      const body = Buffer.from(await metrics(format));
      response.writeHead(200, { "content-type": expositionTypes[format], "content-length": body.length });
      response.end(body);
    }),
    "/healthz": (_request, response) => {
      respondText(response, 200, "ok");
    },
  };
  const console = createConsoleFiles();
  return (path) => {
    if (path.startsWith(`${apiRoot}/`)) return api;
    if (path !== consoleRoot && !path.startsWith(`${consoleRoot}/`)) return plain[path];
    return oidc(path) ?? console;
  };
}

/** A request listener for an asynchronous handler. If that fails, the request does, and never the process. */
function waiting(answer: (...args: Parameters<RequestListener>) => Promise<void>): RequestListener {
  return (request, response) => {
    answer(request, response).catch(() => {
      if (response.headersSent) response.destroy();
      else respondText(response, 500, "internal error");
    });
  };
}

/**
 * Serves only the operators' paths, on their own listener. Host and Origin are checked: a page in a browser could read
 * them by DNS rebinding.
 */
export function adminListener(
  gateway: Pick<GatewayContext, "noteRefusal">,
  paths: AdminPaths,
  access: Pick<AccessControl, "problem">,
): RequestListener {
  return (request, response) => {
    const { host, origin } = request.headers;
    const malformed = requestHeadProblem(request);
    if (malformed !== undefined) {
      response.shouldKeepAlive = false;
      refuseText(gateway, response, "bad_request", malformed);
      return;
    }
    const problem = access.problem(host, origin);
    if (problem !== undefined) {
      refuseText(gateway, response, problem.code, problem.text, { host, origin, setting: problem.setting });
      return;
    }
    const [path = ""] = (request.url ?? "").split("?", 1);
    const own = paths(path);
    if (own === undefined) refuseText(gateway, response, "not_found", nothingHere);
    else own(request, response);
  };
}

const nothingHere = "nothing is served here; expected one of /console, /api/v1, /readyz, /metrics, /healthz";
