import type { RoutePolicy } from "../config/config.ts";
import type { Clock, SetTimer } from "../exchange.ts";
import type { OnFailOpen } from "../policy/fail-open.ts";
import type { PolicyProvider } from "../policy/provider.ts";
import { toPlainFields } from "../policy/sideband/log.ts";
import { createSidebandProvider } from "../policy/sideband/provider.ts";
import type { Logger } from "../telemetry/log.ts";
import { readPem } from "./pem.ts";

/** What the provider needs of the gateway around it. */
export interface PingAuthorizeDeps {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly onFailOpen: OnFailOpen;
}

/** Opens the provider that asks a PingAuthorize server; its certificates are read now. */
export function openPingAuthorize(
  config: NonNullable<RoutePolicy["pingAuthorize"]>,
  failOpen: boolean,
  { clock, setTimer, log, onFailOpen }: PingAuthorizeDeps,
): PolicyProvider {
  const { caFile, certFile, keyFile } = config.tls ?? {};
  return createSidebandProvider(config, {
    clock,
    setTimer,
    failOpen,
    onFailOpen,
    log: (entry) => {
      log[entry.level](toPlainFields(entry), entry.msg);
    },
    tls: {
      ...(caFile === undefined ? {} : { ca: readPem(caFile).toString() }),
      ...(certFile === undefined ? {} : { cert: readPem(certFile).toString() }),
      ...(keyFile === undefined ? {} : { key: readPem(keyFile).toString() }),
    },
  });
}
