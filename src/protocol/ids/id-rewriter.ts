import {
  type IdEdit,
  idFrom,
  type Message,
  type NotificationMessage,
  readId,
  replaceIds,
  type RequestId,
  type RequestMessage,
} from "../message.ts";
import { type MemberName, spanOf } from "../json/outline.ts";
import { memberString, memberType } from "../json/read.ts";
import { createdTaskId, endedTaskId, metadataOf, reportsTaskEnd } from "../metadata.ts";
import type { Era } from "../revisions.ts";

/** A client's message as the shared connection needs it, or why it must not be sent. */
export type RewriteResult =
  | { readonly ok: true; readonly message: Message }
  /** A cancellation that names no request of this client; sent unchanged it could cancel another client's request. */
  | { readonly ok: false; readonly reason: "malformed" | "not-in-flight" };

/** Which client a message from the shared connection belongs to, with that client's own ids. */
export type RestoreResult<Owner> =
  | { readonly type: "owned"; readonly owner: Owner; readonly message: Message }
  /** It names none of our ids: a server request, a log message, a change that concerns every client. */
  | { readonly type: "shared"; readonly message: Message }
  /** It names a request of this client that has ended, with the client's own ids; only where ended requests are kept. */
  | { readonly type: "late"; readonly owner: Owner; readonly message: Message }
  /** It names an id that is no longer in use, or one that was never used. */
  | { readonly type: "stray"; readonly reason: "finished" | "unknown"; readonly message: Message };

/** One client of a shared connection. */
export interface ClientIdRewriter {
  /** Replaces the client's ids by ours. Responses to server requests stay unchanged. */
  rewrite(message: Message): RewriteResult;
  /** Forgets this client and its requests in flight. */
  release(): void;
}

/**
 * Rewrites ids, progress tokens, cancellation targets and subscription ids between several clients and the upstream
 * connection they share, and back. This table is the only link between the exchanges on both sides (SC-059).
 */
export interface IdRewriter<Owner> {
  /** Adds a client. */
  join(owner: Owner): ClientIdRewriter;
  /** Finds the client of a message from the server and restores that client's ids. */
  restore(message: Message): RestoreResult<Owner>;
  /** The number of requests in flight, and of finished requests whose task still runs. */
  readonly size: number;
}

/** A client's request that was sent on the shared connection. */
interface ForwardedRequest<Owner> {
  /** The id, and the progress token if there is one, that the server knows. */
  readonly number: number;
  readonly client: Owner;
  readonly method: string;
  readonly id: RequestId;
  readonly token: RequestId | undefined;
  /** The request may create a task (MCP 2025-11-25, Tasks). */
  readonly wantsTask: boolean;
  /** The task that the request is about. */
  readonly aboutTask: string | undefined;
  /** The task that the response created; the entry stays until the task ends. */
  task: string | undefined;
}

interface Client<Owner> extends ClientIdRewriter {
  readonly owner: Owner;
  /** Its last requests that have ended, by number. */
  readonly ended: Map<number, EndedRequest>;
}

type EndedRequest = Pick<ForwardedRequest<never>, "id" | "token">;

/** Of all clients where none are kept. */
const noneEnded = new Map<number, EndedRequest>();

/** How a table is used. */
interface IdRewriterOptions {
  /** How many ended requests of each client are kept, to know whose late messages are; none unless given. */
  readonly endedPerClient?: number;
}

const subscriptionId = {
  params: "params._meta.io.modelcontextprotocol/subscriptionId",
  result: "result._meta.io.modelcontextprotocol/subscriptionId",
} as const;

/** More running tasks than this are forgotten, oldest first. */
const maxTasks = 1000;

/**
 * Makes the table of one connection. Our ids are integers that count up and are never reused on the connection
 * (MCP 2025-11-25, Overview: an id is used once in a session). A progress token is the number of its request.
 *
 * @example
 * const client = rewriter.join(session);
 * const rewritten = client.rewrite(request); // { ok: true, message: the same request with our id }
 * const restored = rewriter.restore(response); // { type: "owned", owner: session, message: with the client's id }
 */
export function createIdRewriter<Owner>(era: Era, { endedPerClient = 0 }: IdRewriterOptions = {}): IdRewriter<Owner> {
  return new ConnectionIds(era, endedPerClient);
}

type Forwarded<Owner> = ForwardedRequest<Client<Owner>>;

class ConnectionIds<Owner> implements IdRewriter<Owner> {
  readonly #era: Era;
  readonly #endedPerClient: number;
  /** Those whose ended requests are kept. */
  readonly #clients = new Set<Client<Owner>>();
  /** By number, and so in the order of numbers. */
  readonly #forwarded = new Map<number, Forwarded<Owner>>();
  #lastNumber = 0;
  #taskCount = 0;

  constructor(era: Era, endedPerClient: number) {
    this.#era = era;
    this.#endedPerClient = endedPerClient;
  }

  get size(): number {
    return this.#forwarded.size;
  }

  join(owner: Owner): ClientIdRewriter {
    const client: Client<Owner> = {
      owner,
      ended: this.#endedPerClient === 0 ? noneEnded : new Map(),
      rewrite: (message) => {
        if (message.kind === "request") return this.#forward(client, message);
        return message.method === "notifications/cancelled" ? this.#cancel(client, message) : { ok: true, message };
      },
      release: () => {
        for (const request of this.#forwarded.values()) if (request.client === client) this.#remove(request);
        this.#clients.delete(client);
      },
    };
    if (this.#endedPerClient > 0) this.#clients.add(client);
    return client;
  }

  restore(message: Message): RestoreResult<Owner> {
    switch (message.kind) {
      case "result":
      case "error":
        return this.#restoreResponse(message);
      case "notification":
        return this.#restoreNotification(message);
      case "request":
        return this.#restoreByTask(message);
    }
  }

  #forward(client: Client<Owner>, request: RequestMessage): RewriteResult {
    const token = idIn(request, "params._meta.progressToken");
    const hasTasks = this.#era === "legacy";
    const number = ++this.#lastNumber;
    this.#forwarded.set(number, {
      number,
      client,
      method: request.method,
      id: request.id,
      token,
      wantsTask: hasTasks && memberType(request, "params.task") === "object",
      aboutTask: hasTasks && request.method.startsWith("tasks/") ? memberString(request, "params.taskId") : undefined,
      task: undefined,
    });
    const id = idFrom(number);
    const edits: IdEdit[] = [{ name: "id", id }];
    // A malformed token stays: no progress can refer to it.
    if (token !== undefined) edits.push({ name: "params._meta.progressToken", id });
    return { ok: true, message: replaceIds(request, edits) };
  }

  #cancel(client: Client<Owner>, notification: NotificationMessage): RewriteResult {
    const target = idIn(notification, "params.requestId");
    if (target === undefined) return { ok: false, reason: "malformed" };
    const request = this.#newest(
      (entry) => entry.client === client && entry.task === undefined && entry.id.key === target.key,
    );
    if (request === undefined) return { ok: false, reason: "not-in-flight" };
    // A request for a task is cancelled by tasks/cancel alone, so its response may still come.
    if (!request.wantsTask) this.#remove(request);
    return { ok: true, message: replaceIds(notification, [{ name: "params.requestId", id: idFrom(request.number) }]) };
  }

  #restoreResponse(response: Message & { kind: "result" | "error" }): RestoreResult<Owner> {
    const request = this.#forwarded.get(numberOf(response.id));
    if (request === undefined || request.task !== undefined) return this.#stray(response, response.id);
    const { id, number, method, aboutTask, wantsTask } = request;
    const created = wantsTask ? createdTaskId(response) : undefined;
    if (created === undefined) this.#remove(request);
    else this.#keepForTask(request, created);
    if (aboutTask !== undefined && reportsTaskEnd(method, response)) {
      const ended = this.#newest(({ task }) => task === aboutTask);
      if (ended !== undefined) this.#remove(ended);
    }
    const edits: IdEdit[] = [{ name: "id", id }];
    const isOwnSubscription = numberOf(idIn(response, subscriptionId.result)) === number;
    if (isOwnSubscription) edits.push({ name: subscriptionId.result, id });
    return owned(request, response, edits);
  }

  #restoreNotification(notification: NotificationMessage): RestoreResult<Owner> {
    const { method } = notification;
    if (method === "notifications/progress") {
      const token = idIn(notification, "params.progressToken");
      const request = this.#forwarded.get(numberOf(token));
      if (request?.token === undefined) return this.#stray(notification, token);
      return owned(request, notification, [{ name: "params.progressToken", id: request.token }]);
    }
    if (this.#era === "legacy") return this.#restoreByTask(notification);
    // MCP 2026-07-28: servers send no requests, so a server cancels only a client's listen request.
    const isEnd = method === "notifications/cancelled";
    const name = isEnd ? "params.requestId" : subscriptionId.params;
    if (spanOf(notification.outline, name) === undefined) return { type: "shared", message: notification };
    const id = idIn(notification, name);
    const request = this.#forwarded.get(numberOf(id));
    if (request === undefined) return this.#stray(notification, id);
    if (isEnd) this.#remove(request);
    return owned(request, notification, [{ name, id: request.id }]);
  }

  /** A message about a task belongs to the client that created the task; all others may concern any client. */
  #restoreByTask(message: NotificationMessage | RequestMessage): RestoreResult<Owner> {
    const taskId = this.#taskCount === 0 ? undefined : metadataOf(message).taskId;
    const request = taskId === undefined ? undefined : this.#newest(({ task }) => task === taskId);
    if (request === undefined) return { type: "shared", message };
    if (endedTaskId(message) !== undefined) this.#remove(request);
    return owned(request, message, []);
  }

  /** Walks through all clients, which is fine for rare messages. */
  #stray(message: Message, id: RequestId | undefined): RestoreResult<Owner> {
    const number = numberOf(id);
    const isProgress = message.method === "notifications/progress";
    for (const { owner, ended } of this.#clients) {
      const request = ended.get(number);
      const own = isProgress ? request?.token : request?.id;
      if (own === undefined) continue;
      const name = isProgress ? "params.progressToken" : "id";
      return { type: "late", owner, message: replaceIds(message, [{ name, id: own }]) };
    }
    return { type: "stray", reason: number > 0 && number <= this.#lastNumber ? "finished" : "unknown", message };
  }

  /** Walks through all entries, which is fine for rare messages. */
  #newest(matches: (request: Forwarded<Owner>) => boolean): Forwarded<Owner> | undefined {
    let newest: Forwarded<Owner> | undefined;
    for (const request of this.#forwarded.values()) if (matches(request)) newest = request;
    return newest;
  }

  #keepForTask(request: Forwarded<Owner>, task: string): void {
    request.task = task;
    this.#taskCount++;
    if (this.#taskCount <= maxTasks) return;
    for (const oldest of this.#forwarded.values()) {
      if (oldest.task === undefined) continue;
      this.#remove(oldest);
      return;
    }
  }

  #remove(request: Forwarded<Owner>): void {
    if (!this.#forwarded.delete(request.number)) return;
    if (request.task !== undefined) this.#taskCount--;
    if (this.#endedPerClient === 0) return;
    const { id, token, number, client } = request;
    const { ended } = client;
    ended.set(number, { id, token });
    if (ended.size <= this.#endedPerClient) return;
    const [oldest] = ended.keys();
    if (oldest !== undefined) ended.delete(oldest);
  }
}

function owned<Owner>({ client }: Forwarded<Owner>, message: Message, edits: readonly IdEdit[]): RestoreResult<Owner> {
  return { type: "owned", owner: client.owner, message: replaceIds(message, edits) };
}

/** The number of one of our ids; 0 for any other id. */
function numberOf(id: RequestId | undefined): number {
  const number = id?.key.startsWith("n:") === true ? Number(id.key.slice(2)) : 0;
  return Number.isSafeInteger(number) && number > 0 ? number : 0;
}

function idIn(message: Message, name: MemberName): RequestId | undefined {
  const span = spanOf(message.outline, name);
  if (span === undefined) return undefined;
  const parsed = readId(message.bytes, span.start, span.end);
  return parsed.ok && !parsed.fractional ? parsed.id : undefined;
}
