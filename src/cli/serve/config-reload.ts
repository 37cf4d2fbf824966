import type { ConfigResult } from "../../config/load.ts";
import { formatProblem } from "../../config/issues.ts";
import type { ReloadableSecrets } from "../../config/secrets.ts";
import { systemTimer } from "../../core/exchange.ts";
import type { Gateway } from "../../gateway/gateway.ts";
import type { RootLogger } from "../../telemetry/log.ts";
import type { ServingIo } from "../io.ts";
import type { InterceptorLoader } from "../../gateway/wiring/interceptor-files.ts";
import { createDigestingReader, createFileWatcher, type DigestingReader } from "./file-watcher.ts";

/** What reloading needs. */
export interface FollowConfigOptions {
  /** Undefined where only interceptors are followed. */
  readonly file: string | undefined;
  /** The reader that read the file and those it references when the gateway was created. */
  readonly first: DigestingReader;
  /** Loads and validates the configuration. */
  readonly load: (readFile: ServingIo["readFile"]) => Promise<ConfigResult>;
  /** Loads the interceptors that the configuration names; their files are followed too. */
  readonly interceptors: InterceptorLoader;
  readonly gateway: Pick<Gateway, "reload">;
  readonly log: RootLogger;
  readonly secrets: ReloadableSecrets;
  readonly io: Pick<ServingIo, "readFile" | "onReload">;
  /** Whether the servers of routes stay as they are until the next start. */
  readonly keepServers: boolean;
}

/** Reloads the gateway when its configuration file, or a file it references, changes, or on SIGHUP. An invalid one changes nothing. */
export function followConfig(options: FollowConfigOptions): Disposable {
  const { file, load, interceptors, gateway, log, secrets, io, keepServers } = options;
  let isOver = false;
  let isLoading = false;
  let isAsked = false;

  /** One reload at a time; requests during a reload cause one more. */
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
    const loaded = result.ok ? await interceptors.load(result.config) : result;
    await watchFiles(reader);
    if (isOver) return;
    if (!result.ok || !loaded.ok) {
      for (const problem of loaded.ok ? [] : loaded.problems) refuse(formatProblem(problem, file));
      return;
    }
    for (const warning of result.warnings) {
      log.warn({ at: formatProblem(warning, file) }, "configuration warning");
    }
    const outcome = await gateway.reload(result.config, { interceptors: loaded.interceptors, keepServers });
    if (!outcome.ok) {
      refuse(result.config.secrets.redact(outcome.problem));
      return;
    }
    secrets.replace(result.config.secrets, outcome.needsRestart.length > 0);
    log.setLevel(result.config.log.level);
    tell(outcome.changed, outcome.needsRestart);
    if (loaded.isFresh) log.info({ files: [...interceptors.files].join(", ") }, "interceptors loaded");
  }

  /** Follows the interceptors' files besides those of the configuration. */
  async function watchFiles({ readFile, digests }: DigestingReader): Promise<void> {
    for (const path of interceptors.files) await readFile(path).catch(() => {});
    if (isOver) return;
    watcher.watch(digests);
    // A file may have changed after it was loaded and before it was read here.
    if (interceptors.hasChanged()) asked();
  }

  function refuse(problem: string): void {
    log.error({ file, problem }, "invalid configuration; keeping the old one");
  }

  function tell(changed: readonly string[], needsRestart: readonly string[]): void {
    const applied = changed.filter((path) => !needsRestart.includes(path));
    if (applied.length === 0) log.info({ file }, "configuration reloaded: no changes");
    else log.info({ file, changed: applied.join(", ") }, "configuration reloaded");
    if (needsRestart.length > 0) {
      log.warn({ file, changed: needsRestart.join(", ") }, "changes need a restart");
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
      log.warn({ place, reason: String(error) }, "cannot watch for changes; SIGHUP still reloads");
    },
  });
  void watchFiles(options.first);
  const stop = io.onReload(asked);
  return {
    [Symbol.dispose]: () => {
      isOver = true;
      stop();
      watcher[Symbol.dispose]();
    },
  };
}
