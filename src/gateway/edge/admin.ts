import type { RequestListener } from "node:http";
import { expositionTypes, type Metrics } from "../../telemetry/metrics.ts";
import { respondText } from "./router.ts";

/** What readiness is judged by. */
export interface Readiness {
  readonly isReady: boolean;
  /** One line for each route: its name and how its upstream does. */
  readonly routes: Readonly<Record<string, string>>;
}

/** The paths for operators: whether work is taken, and figures for Prometheus. */
export function createAdmin(metrics: Metrics, readiness: () => Readiness): Readonly<Record<string, RequestListener>> {
  return {
    "/readyz": (_request, response) => {
      const { isReady, routes } = readiness();
      const body = Buffer.from(`${JSON.stringify({ ready: isReady, routes })}\n`);
      response.writeHead(isReady ? 200 : 503, {
        "content-type": "application/json",
        "content-length": body.length,
      });
      response.end(body);
    },
    "/metrics": (request, response) => {
      // Prometheus asks for OpenMetrics if it stores exemplars.
      const isOpenMetrics = request.headers.accept?.includes("application/openmetrics-text") === true;
      const format = isOpenMetrics ? "openmetrics" : "prometheus";
      const body = Buffer.from(metrics.text(format));
      response.writeHead(200, { "content-type": expositionTypes[format], "content-length": body.length });
      response.end(body);
    },
    "/healthz": (_request, response) => {
      respondText(response, 200, "ok");
    },
  };
}

/** Serves only those paths, for a listener of its own. */
export function adminListener(paths: Readonly<Record<string, RequestListener>>): RequestListener {
  return (request, response) => {
    const [path = ""] = (request.url ?? "").split("?", 1);
    const own = paths[path];
    if (own === undefined)
      respondText(response, 404, `nothing is served here; there are ${Object.keys(paths).join(", ")}`);
    else own(request, response);
  };
}
