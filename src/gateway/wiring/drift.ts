import { readFileSync, statSync } from "node:fs";

import { GatewayError } from "../../errors.ts";
import type { Clock } from "../../core/exchange.ts";
import type { MessageInterceptor } from "../../core/interceptors/interceptor.ts";
import type { DriftConfig } from "../../recorder/config.ts";
import { createDriftGuard } from "../../recorder/drift/guard.ts";
import { type DefinitionLock, parseLock } from "../../recorder/drift/compare.ts";
import { errorFields, type Logger } from "../../telemetry/log.ts";

/** How long an approval may take to apply. */
const lookEveryMs = 1000;

/** Opens the configured guard against servers that change their definitions. Approvals apply without a restart. */
export function openDriftGuard(
  config: DriftConfig | undefined,
  { log, clock }: { readonly log: Logger; readonly clock: Pick<Clock, "now"> },
): readonly MessageInterceptor[] {
  if (config === undefined) return [];
  const { lock: file, mode } = config;
  let current = readLock(file);
  let lookedAt = clock.now();

  function lock(): DefinitionLock {
    if (clock.now() - lookedAt < lookEveryMs) return current.lock;
    lookedAt = clock.now();
    try {
      if (statSync(file).mtimeMs !== current.changedAt) current = readLock(file);
    } catch (error) {
      // Approvals stay valid while the file is being rewritten.
      log.warn(errorFields(GatewayError.from(error)), "cannot read the approved definitions; keeping the old ones");
    }
    return current.lock;
  }

  return [
    createDriftGuard({
      mode,
      lock,
      onDrift: (route, { key, type, severity, fields, reasons }, { id }) => {
        log.warn(
          {
            exchange: id,
            route,
            definition: key,
            type,
            severity,
            fields: fields.join(", "),
            reasons: reasons.join("; "),
            mode,
          },
          "definition drift",
        );
      },
    }),
  ];
}

function readLock(file: string): { readonly lock: DefinitionLock; readonly changedAt: number } {
  try {
    return { lock: parseLock(readFileSync(file, "utf8"), file), changedAt: statSync(file).mtimeMs };
  } catch (error) {
    if (error instanceof GatewayError) throw error;
    const message = `${file} cannot be read; headgate drift approve writes it`;
    throw new GatewayError("config_invalid", message, { cause: error });
  }
}
