import { anonymous } from "../../core/exchange.ts";
import { errorTable } from "../../errors.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { shortenName } from "../../telemetry/log.ts";
import type { GatewayContext, RefusedRequest } from "../context.ts";
import type { GatewayRecording } from "./recording.ts";

/** So many refusals of one kind are written one by one; the rest of the time window is summed up. */
const writtenPerWindow = 10;
const windowMs = 10_000;

interface RefusalWindow {
  written: number;
  repeats: number;
}

export interface RefusalLogDeps extends Pick<GatewayContext, "log" | "setTimer" | "newLabel"> {
  readonly recording: Pick<GatewayRecording, "onRefused"> | undefined;
}

/**
 * Creates the function that logs and records requests that were refused before they brought a message. Callers that
 * nobody knows cause them, so neither log nor store may grow with their number: repeats are summed up.
 */
export function createRefusalLog(deps: RefusalLogDeps): (refused: RefusedRequest) => void {
  const { log, setTimer, newLabel, recording } = deps;
  // One for each code of the closed table of errors.
  const windows = new Map<string, RefusalWindow>();

  function write(refused: RefusedRequest, repeats: number): void {
    const { code, status, reason, route = "", principal = anonymous, transport, fields } = refused;
    const id = newLabel(undefined);
    const http = transport.type === "http" ? transport : undefined;
    log[errorTable[code].level](
      {
        exchange: id,
        ...(route === "" ? {} : { route }),
        code,
        status,
        reason: shortenName(reason),
        method: http?.method,
        path: shortenName(http?.path),
        peer: http?.peer,
        ...fields,
        ...(repeats === 0 ? {} : { repeats }),
      },
      repeats === 0 ? "request refused" : "more requests refused alike",
    );
    recording?.onRefused({ status, reason, ...(repeats === 0 ? {} : { repeats }) }, code, {
      id,
      direction: "client-to-server",
      route,
      principal,
      session: undefined,
      revision: newestLegacy,
      transport,
      parent: undefined,
      tracking: { entry: undefined },
    });
  }

  return (refused) => {
    let window = windows.get(refused.code);
    if (window === undefined) {
      const opened: RefusalWindow = { written: 0, repeats: 0 };
      window = opened;
      windows.set(refused.code, opened);
      setTimer(windowMs, () => {
        windows.delete(refused.code);
        if (opened.repeats > 0) write(refused, opened.repeats);
      });
    }
    if (window.written++ < writtenPerWindow) write(refused, 0);
    else window.repeats++;
  };
}
