import type { ChildProcess } from "node:child_process";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

import { GatewayError } from "../../errors.ts";
import type { Clock, SetTimer } from "../../lib/clock.ts";
import { spawnProcess } from "../../lib/spawn-process.ts";
import { childEnvironment, type ChildEnvironment } from "./environment.ts";
import { formatForgetLine, formatWatchLine, type ProcessTree } from "./process-tree.ts";

/** Kills the children of this process if it is killed. */
export interface Watchdog {
  /** Watches a tree. Once the promise resolves, a kill of this process cannot make the watchdog miss it. */
  watch(tree: ProcessTree): Promise<void> | void;
  /** The tree has exited; its pids may be reused. */
  forget(tree: ProcessTree): void;
  /** Stops the watchdog, which kills the trees still watched; resolves when it has exited. */
  close(): Promise<void>;
}

export interface WatchdogDeps {
  readonly environment: ChildEnvironment;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** Called when the watchdog failed to start or exited; it is restarted. */
  readonly onError?: (error: GatewayError) => void;
  /** Time between SIGTERM and SIGKILL for orphans; 2 s by default. */
  readonly graceMs?: number;
}

const defaultGraceMs = 2000;
/** A watchdog that ran this long did not fail to start. */
const stableMs = 10_000;
const firstDelayMs = 100;
const maxDelayMs = 30_000;

/**
 * Creates the watchdog of a gateway: one small process, started with the first child and restarted when it exits. It
 * does not keep this process alive. Processes that `killProcessTree` does not find can escape.
 */
export function createWatchdog(deps: WatchdogDeps): Watchdog {
  const { clock, setTimer, graceMs = defaultGraceMs } = deps;
  const trees = new Map<number, ProcessTree>();
  let helper: ChildProcess | undefined;
  let startedAt = 0;
  let failures = 0;
  let cancelRestart: (() => void) | undefined;
  let isClosed = false;
  const exited = Promise.withResolvers<void>();

  function start(): void {
    cancelRestart = undefined;
    startedAt = clock.now();
    let started: ChildProcess;
    try {
      started = launch(deps.environment, graceMs);
    } catch (error) {
      failed(error);
      return;
    }
    helper = started;
    started.once("error", (error) => ended(started, error));
    started.once("exit", (code, signal) => ended(started, new Error(`exited with ${code ?? signal}`)));
    for (const tree of trees.values()) void tell(formatWatchLine(tree));
  }

  function ended(which: ChildProcess, cause: Error): void {
    if (which !== helper) return;
    helper = undefined;
    if (isClosed) {
      exited.resolve();
      return;
    }
    failed(cause);
  }

  function failed(cause: unknown): void {
    failures = clock.now() - startedAt >= stableMs ? 0 : failures + 1;
    const text = "the watchdog exited; until it runs again, killing the gateway leaves server processes behind";
    deps.onError?.(new GatewayError("internal", text, { cause }));
    if (trees.size > 0) restartSoon();
  }

  function restartSoon(): void {
    if (failures <= 1) {
      start();
      return;
    }
    cancelRestart = setTimer(Math.min(firstDelayMs * 2 ** (failures - 2), maxDelayMs), start);
  }

  /** Resolves when the system has the line, which the watchdog reads even if this process is gone by then. */
  async function tell(line: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (helper?.stdin?.writable !== true) return;
    // A line that is lost with its watchdog is sent again to the next one.
    helper.stdin.write(line, () => resolve());
    await promise;
  }

  return {
    async watch(tree) {
      if (helper === undefined && !isClosed && cancelRestart === undefined) start();
      trees.set(tree.leader, tree);
      await tell(formatWatchLine(tree));
    },
    forget(tree) {
      // The pid may already be that of a later tree.
      if (trees.get(tree.leader) !== tree) return;
      trees.delete(tree.leader);
      void tell(formatForgetLine(tree));
    },
    close() {
      isClosed = true;
      cancelRestart?.();
      if (helper === undefined) exited.resolve();
      else helper.stdin?.end();
      return exited.promise;
    },
  };
}

function launch(environment: ChildEnvironment, graceMs: number): ChildProcess {
  const source = new URL("./watchdog-main.ts", import.meta.url);
  const entry = import.meta.url.endsWith(".ts") ? source : new URL("./watchdog-main.js", import.meta.url);
  const helper = spawnProcess(process.execPath, [fileURLToPath(entry), String(graceMs)], {
    // Outside our group, so that neither Ctrl-C nor a kill of the group reaches it.
    detached: true,
    windowsHide: true,
    cwd: "/",
    env: childEnvironment(environment, {}, process.platform),
    stdio: ["pipe", "ignore", "ignore"],
  });
  // The exit handler restarts it.
  helper.stdin?.on("error", () => {});
  helper.unref();
  if (helper.stdin instanceof Socket) helper.stdin.unref();
  return helper;
}
