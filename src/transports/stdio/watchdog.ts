import { type ChildProcess, spawn } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../core/exchange.ts";
import { childEnvironment, type ChildEnvironment } from "./environment.ts";
import { formatForgetLine, formatWatchLine, type ProcessTree } from "./process-tree.ts";

/** Sees to it that no child outlives this process, even when it is killed. */
export interface Watchdog {
  /** Takes a family under watch, at once. */
  watch(family: ProcessTree): void;
  /** The family has gone and its numbers may come to others. */
  forget(family: ProcessTree): void;
  /** Ends the watchdog, and with it whatever is still under watch; resolves when it has gone. */
  close(): Promise<void>;
}

/** What a watchdog needs of the world around it. */
export interface WatchdogDeps {
  readonly environment: ChildEnvironment;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Told when the watchdog's process could not start or ended; it is started anew. */
  readonly onTrouble?: (error: GatewayError) => void;
  /** What orphans get between SIGTERM and SIGKILL; 2 s unless given. */
  readonly graceMs?: number;
}

const defaultGraceMs = 2000;
/** One that lived so long did not fail at its start. */
const settledMs = 10_000;
const firstDelayMs = 100;
const longestDelayMs = 30_000;

/**
 * Makes the watchdog of a gateway: one small process, started with the first child and anew should it end. It does not
 * keep this process alive. A child that is started in the instant before a kill, and then ignores the end of its
 * input, can escape it; so can what `killProcessTree` does not find.
 */
export function createWatchdog(deps: WatchdogDeps): Watchdog {
  const { clock, setTimer, graceMs = defaultGraceMs } = deps;
  const families = new Map<number, ProcessTree>();
  let helper: ChildProcess | undefined;
  let startedAt = 0;
  let failures = 0;
  let cancelRestart: (() => void) | undefined;
  let isClosed = false;
  const gone = Promise.withResolvers<void>();

  function start(): void {
    cancelRestart = undefined;
    startedAt = clock.now();
    const started = launch(deps.environment, graceMs);
    helper = started;
    started.once("error", (error) => ended(started, error));
    started.once("exit", (code, signal) => ended(started, new Error(`ended with ${code ?? signal}`)));
    for (const family of families.values()) tell(formatWatchLine(family));
  }

  function ended(which: ChildProcess, cause: Error): void {
    if (which !== helper) return;
    helper = undefined;
    if (isClosed) {
      gone.resolve();
      return;
    }
    failures = clock.now() - startedAt >= settledMs ? 0 : failures + 1;
    const text = "the watchdog ended; until it runs again a kill of the gateway leaves server processes behind";
    deps.onTrouble?.(new GatewayError("internal", text, { cause }));
    if (families.size > 0) restartSoon();
  }

  function restartSoon(): void {
    if (failures <= 1) {
      start();
      return;
    }
    cancelRestart = setTimer(Math.min(firstDelayMs * 2 ** (failures - 2), longestDelayMs), start);
  }

  function tell(line: string): void {
    helper?.stdin?.write(line);
  }

  return {
    watch(family) {
      families.set(family.leader, family);
      if (helper !== undefined) tell(formatWatchLine(family));
      else if (!isClosed && cancelRestart === undefined) start();
    },
    forget(family) {
      // The number may already be that of a later family.
      if (families.get(family.leader) !== family) return;
      families.delete(family.leader);
      tell(formatForgetLine(family));
    },
    close() {
      isClosed = true;
      cancelRestart?.();
      if (helper === undefined) gone.resolve();
      else helper.stdin?.end();
      return gone.promise;
    },
  };
}

function launch(environment: ChildEnvironment, graceMs: number): ChildProcess {
  // Source and build are alike but for the ending of the file.
  const source = new URL("./watchdog-main.ts", import.meta.url);
  const entry = import.meta.url.endsWith(".ts") ? source : new URL("./watchdog-main.js", import.meta.url);
  const helper = spawn(process.execPath, [fileURLToPath(entry), String(graceMs)], {
    // Away from our group, so that neither Ctrl-C nor a kill of the group ends it together with us.
    detached: true,
    windowsHide: true,
    cwd: "/",
    env: childEnvironment(environment, {}, process.platform),
    stdio: ["pipe", "ignore", "ignore"],
  });
  // It died: the exit says so, and the families are told to the next one.
  helper.stdin.on("error", () => {});
  helper.unref();
  if (helper.stdin instanceof Socket) helper.stdin.unref();
  return helper;
}
