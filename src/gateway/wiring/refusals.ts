import { anonymous } from "../../core/exchange.ts";
import { errorTable } from "../../errors.ts";
import { newestLegacy } from "../../protocol/revisions.ts";
import { shortenName } from "../../telemetry/log.ts";
import type { GatewayContext, RefusedRequest } from "../context.ts";
import type { GatewayRecording } from "./recording.ts";

/** How many refusals of one kind are written one by one in a time window; the rest are summed up. */
const writtenPerWindow = 10;
const windowMs = 10_000;

interface RefusalWindow {
  written: number;
  repeats: number;
  /** Ends the window and writes how many were not written one by one. */
  readonly end: () => void;
}

export interface RefusalLogDeps extends Pick<GatewayContext, "log" | "setTimer" | "newLabel"> {
  readonly recording: Pick<GatewayRecording, "onRefused"> | undefined;
}

/** Logs and records requests that were refused before they became a message. */
export interface RefusalLog {
  note(refused: RefusedRequest): void;
  /** Writes the sums of all open windows. */
  close(): void;
}

/**
 * Creates the log of requests that were refused before they brought a message. Unknown callers cause them, so neither
 * log nor store may grow with their number: repeats are summed up.
 */
export function createRefusalLog(deps: RefusalLogDeps): RefusalLog {
  const { log, setTimer, newLabel, recording } = deps;
  // One for each code of the closed table of errors.
  const windows = new Map<string, RefusalWindow>();

  function write(refused: RefusedRequest, repeats: number): void {
    const { code, status, reason, route = "", principal = anonymous, transport, fields } = refused;
    const id = newLabel(undefined);
    const http = transport.type === "http" ? transport : undefined;
    // Both are empty if nothing of the request could be read.
    const request =
      http === undefined || http.method === "" ? {} : { method: http.method, path: shortenName(http.path) };
    log[errorTable[code].level](
      {
        exchange: id,
        ...(route === "" ? {} : { route }),
        code,
        status,
        reason: shortenName(reason),
        ...request,
        peer: http?.peer,
        ...fields,
        ...(repeats === 0 ? {} : { repeats }),
      },
      repeats === 0 ? "request refused" : "more requests refused for the same reason",
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

  function open(refused: RefusedRequest): RefusalWindow {
    const end = (): void => {
      stop();
      windows.delete(refused.code);
      if (window.repeats > 0) write(refused, window.repeats);
    };
    const window: RefusalWindow = { written: 0, repeats: 0, end };
    windows.set(refused.code, window);
    const stop = setTimer(windowMs, end);
    return window;
  }

  return {
    note: (refused) => {
      const window = windows.get(refused.code) ?? open(refused);
      if (window.written++ < writtenPerWindow) write(refused, 0);
      else window.repeats++;
    },
    close: () => {
      for (const window of windows.values()) window.end();
    },
  };
}
