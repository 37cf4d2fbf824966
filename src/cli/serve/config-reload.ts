import type { ConfigResult } from "../../config/load.ts";
import { formatProblem } from "../../config/problem.ts";
import type { ReloadableSecrets } from "../../config/secrets.ts";
import { systemTimer } from "../../core/exchange.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { RootLogger } from "../../telemetry/log.ts";
import type { ServingIo } from "../io.ts";
import { createDigestingReader, createFileWatcher, type FileDigests } from "./file-watcher.ts";

/** What following a file needs. */
export interface FollowConfigOptions {
  readonly file: string;
  /** What stood in the file, and in those it names, when the gateway was made from it. */
  readonly first: FileDigests;
  /** Reads and checks the configuration as the command line asks for it. */
  readonly load: (readFile: ServingIo["readFile"]) => Promise<ConfigResult>;
  readonly gateway: Pick<Gateway, "reload">;
  readonly log: RootLogger;
  readonly secrets: ReloadableSecrets;
  readonly io: Pick<ServingIo, "readFile" | "onReload">;
}

/**
 * Hands the gateway its configuration anew whenever the file changes, or one whose content it takes in, or the process
 * is told to. A configuration that is not good changes nothing and is told of in the log.
 */
export function followConfig(options: FollowConfigOptions): Disposable {
  const { file, load, gateway, log, secrets, io } = options;
  let isOver = false;
  let isLoading = false;
  let isAsked = false;

  /** Reloads come one after the other; those asked for meanwhile are one more. */
  async function reload(): Promise<void> {
    isAsked = true;
    if (isLoading) return;
    isLoading = true;
    try {
      while (isAsked && !isOver) {
        isAsked = false;
        await reloadOnce();
      }
    } finally {
      isLoading = false;
    }
  }

  async function reloadOnce(): Promise<void> {
    const reader = createDigestingReader(io.readFile);
    const result = await load(reader.readFile);
    if (isOver) return;
    watcher.watch(reader.digests);
    if (!result.ok) {
      for (const problem of result.problems) refuse(formatProblem(problem, file));
      return;
    }
    for (const warning of result.warnings) {
      log.warn({ at: formatProblem(warning, file) }, "the configuration has a weak spot");
    }
    const outcome = await gateway.reload(result.config);
    if (!outcome.ok) {
      refuse(result.config.secrets.redact(outcome.problem));
      return;
    }
    secrets.replace(result.config.secrets);
    log.setLevel(result.config.log.level);
    tell(outcome.changed, outcome.needsRestart);
  }

  function refuse(problem: string): void {
    log.error({ file, problem }, "the new configuration cannot be used; the old one stays");
  }

  function tell(changed: readonly string[], needsRestart: readonly string[]): void {
    const applied = changed.filter((path) => !needsRestart.includes(path));
    if (applied.length === 0) log.info({ file }, "the configuration has been read anew: nothing to change");
    else log.info({ file, changed: applied.join(", ") }, "the configuration has been reloaded");
    if (needsRestart.length > 0) {
      log.warn({ file, changed: needsRestart.join(", ") }, "these changes need a restart");
    }
  }

  const asked = (): void => {
    void reload();
  };
  const watcher = createFileWatcher({
    readFile: io.readFile,
    setTimer: systemTimer,
    onChange: asked,
    onError: (place, error) => {
      log.warn({ place, reason: String(error) }, "changes there are not noticed; SIGHUP still reloads");
    },
  });
  watcher.watch(options.first);
  const stop = io.onReload(asked);
  return {
    [Symbol.dispose]: () => {
      isOver = true;
      stop();
      watcher[Symbol.dispose]();
    },
  };
}
