import diagnostics from "node:diagnostics_channel";
import type { IncomingMessage } from "node:http";
import { Socket } from "node:net";
import { relative, resolve, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { getCallSites } from "node:util";

/** One function on the stack: its module, from the root of the repository, and its name. */
export interface CallPathStep {
  readonly file: string;
  readonly name: string;
}

/** Call stacks that were taken while messages passed, outermost function first, without code of others. */
export interface CallPaths extends Disposable {
  /** Stacks at accesses to the headers of a request. */
  readonly headers: readonly (readonly CallPathStep[])[];
  /** Stacks at requests to an upstream, as undici starts them. */
  readonly requests: readonly (readonly CallPathStep[])[];
  /** Stacks at writes to a socket, with what was written. */
  readonly writes: readonly { readonly text: string; readonly path: readonly CallPathStep[] }[];
}

const root = resolve(import.meta.dirname, "../..");

/** Takes call stacks until it is disposed. */
export function watchCallPaths(): CallPaths {
  const headers: CallPathStep[][] = [];
  const requests: CallPathStep[][] = [];
  const writes: { text: string; path: CallPathStep[] }[] = [];

  const onArrival = (event: unknown): void => {
    const { request } = event as { readonly request: IncomingMessage };
    const received = request.headers;
    Object.defineProperty(request, "headers", {
      get: () => {
        const path = currentPath();
        if (path.length > 0) headers.push(path);
        return received;
      },
    });
  };
  diagnostics.subscribe("http.server.request.start", onArrival);

  const write = Reflect.get(Socket.prototype, "write") as (this: Socket, ...args: unknown[]) => boolean;
  Socket.prototype.write = function watchedWrite(this: Socket, ...args: unknown[]): boolean {
    const [chunk] = args;
    const path = currentPath();
    const text = chunk instanceof Uint8Array ? Buffer.from(chunk).toString() : String(chunk);
    if (path.length > 0) writes.push({ text, path });
    return write.apply(this, args);
  };

  const onRequest = (): void => {
    const path = currentPath();
    if (path.length > 0) requests.push(path);
  };
  diagnostics.subscribe("undici:request:create", onRequest);

  return {
    headers,
    requests,
    writes,
    [Symbol.dispose]: () => {
      diagnostics.unsubscribe("undici:request:create", onRequest);
      Socket.prototype.write = write;
      diagnostics.unsubscribe("http.server.request.start", onArrival);
    },
  };
}

/** The functions of src/ on the stack now. */
function currentPath(): CallPathStep[] {
  return getCallSites(200)
    .toReversed()
    .flatMap(({ scriptName, functionName }) => {
      const path = scriptName.startsWith("file:") ? fileURLToPath(scriptName) : scriptName;
      const file = relative(root, path).split(sep).join("/");
      return file.startsWith("src/") ? [{ file, name: functionName }] : [];
    });
}

/** The modules on a path in order, each with the function by which it was entered. */
export function entriesOf(path: readonly CallPathStep[]): readonly CallPathStep[] {
  return path.filter(({ file }, index) => file !== path[index - 1]?.file);
}
