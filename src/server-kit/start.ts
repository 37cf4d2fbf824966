import { listen } from "./adapters/node.ts";
import type { ListeningServer, KitListenOptions } from "./adapters/node.ts";
import { createServerKit } from "./create.ts";
import type { ServerKit, ServerKitOptions } from "./create.ts";
import type { StdioSession, StdioStreams } from "./stdio.ts";

/** A kit and where it listens. */
export interface StartServerKitOptions extends ServerKitOptions {
  readonly listen?: KitListenOptions;
  readonly stdio?: StdioStreams;
  /** Takes the boot report; standard error unless told, because standard output belongs to the protocol. */
  readonly report?: (text: string) => void;
}

/** A kit that serves what its settings switch on. */
export interface RunningServerKit extends AsyncDisposable {
  readonly kit: ServerKit;
  /** Where HTTP is served; undefined where it is off. */
  readonly url: string | undefined;
  /** Resolves when the kit has stopped: by `close`, or by the end of stdin where stdio is all there is (KO-137). */
  readonly stopped: Promise<void>;
  close(): Promise<void>;
}

/** Makes a kit and serves stdio and HTTP as its settings say: a whole server in one call. */
export async function startServerKit(options: StartServerKitOptions): Promise<RunningServerKit> {
  const kit = await createServerKit(options);
  const { enableStdioTransport, enableHttpSseTransport, enableStreamableHttp, enableRest } = kit.settings();
  const isHttpOn = enableHttpSseTransport || enableStreamableHttp || enableRest;
  const listening: ListeningServer | undefined = isHttpOn ? await listen(kit, options.listen) : undefined;
  const stdio: StdioSession | undefined = enableStdioTransport ? kit.serveStdio(options.stdio) : undefined;
  const report = options.report ?? ((text: string) => void process.stderr.write(`${text}\n`));
  report(kit.bootReport() + (listening === undefined ? "" : `\n  Address: ${listening.url}`));

  const { promise: stopped, resolve } = Promise.withResolvers<void>();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    closing ??= (async () => {
      await (listening === undefined ? kit.shutdown() : listening.close());
      resolve();
    })();
    return closing;
  };
  if (stdio !== undefined && listening === undefined) void stdio.ended.then(close);
  return { kit, url: listening?.url, stopped, close, [Symbol.asyncDispose]: close };
}
