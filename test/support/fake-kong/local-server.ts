import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock, systemTimer, type Clock, type SetTimer } from "../../../src/core/exchange.ts";
import { phasesOf, pluginIdentity } from "../../../src/kong/plugin-definition.ts";
import { serve, type RunningServer } from "../../../src/kong/serve.ts";
import type { CreateSidebandEngine, HttpPolicyEngine } from "../../../src/policy/sideband/contract.ts";
import { createSidebandEngine } from "../../../src/policy/sideband/engine.ts";
import type { PluginFacts } from "./fake-kong.ts";

/** The plugin server in this process, where a test can look inside. */
export interface LocalServer extends RunningServer, AsyncDisposable {
  readonly socket: string;
  readonly plugin: PluginFacts;
  readonly lines: readonly string[];
}

/** What a test may replace. */
export interface LocalServerOptions {
  readonly socket?: string;
  readonly accessOnly?: boolean;
  readonly pid?: number;
  readonly clock?: Clock;
  readonly setTimer?: SetTimer;
  readonly createEngine?: CreateSidebandEngine;
}

/** Starts the plugin server in this process. */
export async function startLocalServer(options: LocalServerOptions = {}): Promise<LocalServer> {
  const { accessOnly = false, pid = process.pid } = options;
  const folder = options.socket === undefined ? mkdtempSync(join(tmpdir(), "headgate-kong-")) : undefined;
  const socket = options.socket ?? join(folder ?? tmpdir(), "kong.sock");
  const lines: string[] = [];
  const server = await serve({
    socket,
    accessOnly,
    pid,
    clock: options.clock ?? systemClock,
    setTimer: options.setTimer ?? systemTimer,
    writeLine: (line) => lines.push(line),
    createEngine: options.createEngine ?? createSidebandEngine,
  });
  const stop = async (): Promise<void> => {
    await server.stop();
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
  };
  return {
    ...server,
    stop,
    socket,
    plugin: { name: pluginIdentity.name, phases: phasesOf({ accessOnly }) },
    lines,
    [Symbol.asyncDispose]: stop,
  };
}

/** An engine that allows everything at once, with some of it replaced. */
export function instantEngine(changes: Partial<HttpPolicyEngine> = {}): CreateSidebandEngine {
  return ({ skip_response_phase: skips }) => ({
    hasResponsePhase: !skips,
    evaluateRequest: () =>
      Promise.resolve({
        action: "continue",
        decision: "allow",
        changes: [],
        store: { paz_original_request: "{}" },
      }),
    evaluateResponse: ({ body }) =>
      Promise.resolve({
        action: "answer",
        answer: { status: 200, headers: {}, body },
        clearHeaders: [],
        isOriginalBody: true,
      }),
    close: () => {},
    ...changes,
  });
}

/** Settings for an engine that asks nobody. */
export const unusedSettings = {
  service_url: "http://pdp.invalid",
  shared_secret: "s",
  secret_header_name: "CLIENT-TOKEN",
};
