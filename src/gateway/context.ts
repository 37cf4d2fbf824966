import { randomBytes } from "node:crypto";
import type { Agent, RequestListener } from "node:http";

import {
  createSuspendedCalls,
  defaultSuspensionLimits,
  type SuspendedCalls,
  type SuspensionLimits,
} from "../bridge/modern-to-legacy/suspended-calls.ts";
import type { Peer } from "../cluster/peer-list.ts";
import type { SubjectTokens } from "../auth/upstream-credentials.ts";
import type { WorkerStore } from "../cluster/worker-store.ts";
import type { Config } from "../config/config.ts";
import { ByteBudget, type ByteLimits } from "../core/byte-budget.ts";
import {
  type Clock,
  type Exchange,
  type SessionContext,
  type SetTimer,
  systemClock,
  systemTimer,
  type Principal,
  type TransportContext,
} from "../core/exchange.ts";
import type { ErrorCode, GatewayError } from "../errors.ts";
import type { ServerFactsStore } from "../federation/member-facts.ts";
import type { MaybePromise } from "../lib/is-promise.ts";
import type { Seal, Seals } from "../lib/keys/sealing.ts";
import { type CreateBuckets, createNamedTokenBuckets, InFlightCounter } from "../lib/token-bucket.ts";
import { OpenWork } from "../core/open-work.ts";
import { createLabeler, noSession } from "../protocol/ids/label.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import type { SharedAuditFiles } from "../policy/audit/rotating-file.ts";
import type { PackBufferBatch } from "../recorder/recorder.ts";
import type { EndedSessions } from "../sessions/ended-sessions.ts";
import { createEventStore, type EventStore, type EventStoreLimits } from "../sessions/event-store.ts";
import {
  createSessionRegistry,
  type SessionLimits,
  type SessionRegistry,
  type SessionSharing,
} from "../sessions/registry.ts";
import type { SessionRecord } from "../sessions/session-record.ts";
import type { StreamJournal } from "../sessions/stream-journal.ts";
import type { TaskOwnerStore } from "../sessions/task-owner-store.ts";
import { type Logger, shortenName } from "../telemetry/log.ts";
import { createMetrics, type Metrics, type MetricSamples } from "../telemetry/metrics.ts";
import { traceOf } from "../telemetry/trace-context.ts";

/** What all parts of a running gateway share. */
export interface GatewayContext {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: SessionRegistry;
  readonly events: EventStore;
  /** Bounds the bytes of all that callers have in the gateway. */
  readonly bytes: ByteBudget;
  /** Who started tasks before a restart; absent where nothing is kept. */
  readonly taskOwners: TaskOwnerStore | undefined;
  /** What servers of federations said about themselves; absent where nothing is kept. */
  readonly serverFacts: ServerFactsStore | undefined;
  /** Eight hex digits that name this process in labels. */
  readonly node: string;
  /** Absent where this gateway has no peers. */
  readonly cluster: ClusterMember | undefined;
  /** Creates the buckets of rate limits, which all gateways share where they share anything. */
  readonly createBuckets: CreateBuckets;
  /** Notes which calls are answered by streams, for the next process. */
  readonly journal: StreamJournal;
  /** Whether event ids name the calls of their streams, because the next process may not have the journal. */
  readonly namesCalls: boolean;
  /** Calls of modern clients that wait for input a legacy server asked for. */
  readonly suspendedCalls: SuspendedCalls;
  /** Seals what clients carry and must not change. */
  readonly seals: Seals;
  /** Read when needed: a reload changes them in place. */
  readonly limits: { readonly parse: ParseLimits; readonly queueBytes: number };
  /** Everything that clients wait for: HTTP requests to the last byte of their answer, and messages to their answer. */
  readonly openWork: OpenWork;
  /** Requests that arrived during the shutdown and are served by other gateways. */
  readonly handedOver: InFlightCounter;
  /** Creates ids that are short, unique in this process and not secret. */
  readonly newId: () => string;
  /** The next label of the process: for a message, or for something that holds none. */
  readonly newLabel: (session: SessionContext | undefined, message?: Pick<Message, "id" | "kind">) => string;
  /** Counts, logs and records a request that was refused before it brought a message. */
  readonly noteRefusal: (refused: RefusedRequest) => void;
  /** Counts a message that the gateway refused on a route. */
  readonly countRefusal: (route: string, code: ErrorCode) => void;
  /** Logs and counts a failed exchange; returns the error. */
  readonly reportFailure: (exchange: Exchange, error: GatewayError) => GatewayError;
}

/** A request that was refused before it brought a message. */
export interface RefusedRequest {
  /** Undefined where it was for no route. */
  readonly route: string | undefined;
  readonly code: ErrorCode;
  /** The HTTP status of the answer. */
  readonly status: number;
  readonly reason: string;
  readonly principal?: Principal;
  readonly transport: TransportContext;
  /** More for the log line. */
  readonly fields?: Readonly<Record<string, string | undefined>>;
}

/** The owners of tasks that any gateway started. */
export interface SharedTasks extends TaskOwnerStore {
  /**
   * Looks up the gateways that started tasks; afterwards `get` knows the owners. Rejects while the store is
   * unavailable.
   */
  find(tasks: readonly string[]): Promise<readonly (string | undefined)[]>;
  /** Resolves when all gateways can know of the tasks that this one started; undefined if they can. */
  whenNoted(): Promise<void> | undefined;
}

/** This gateway among others that hand requests to each other. */
export interface ClusterMember {
  readonly node: string;
  /** Proves to peers that a request comes from one of them. */
  readonly seal: Seal;
  /** The connections to peers. */
  readonly agent: Agent;
  /** The tokens of callers, for peers that call servers on their behalf. */
  readonly subjectTokens: SubjectTokens;
  /** The other gateways that are alive, by node. */
  readonly peers: ReadonlyMap<string, Pick<Peer, "url" | "gone">>;
  /** The node that serves a session whose server lives in one process. Rejects while the store is unavailable. */
  ownerOf(session: Pick<SessionRecord, "id" | "openedBy" | "openedAt">): MaybePromise<string>;
  /**
   * The node that serves such a session instead of an owner that cannot be reached, or that shuts down; the owner itself
   * while it is alive and stays. `candidate`, this gateway if it is not given, takes the place.
   */
  successorOf(
    session: string,
    owner: string,
    how: { readonly isLeaving: boolean; readonly candidate?: string },
  ): Promise<string>;
  readonly tasks: SharedTasks;
  /** The node that runs a server which several callers share; absent where each gateway runs its own. */
  readonly serverOwner?: ((server: string) => MaybePromise<string>) | undefined;
}

/** What one of several processes on one port delegates to the process that started it. */
export interface WorkerSeat {
  /** Seals what clients carry, where no key is configured or stored. */
  readonly key: Uint8Array;
  /** What the workers share; absent where `state` names a store. */
  readonly store: WorkerStore | undefined;
  /** Stores recorded frames. */
  readonly record: (batch: PackBufferBatch) => Promise<void>;
  /** Appends lines to an audit file. */
  readonly audit: SharedAuditFiles["append"];
  /** Serves the admin paths, where they are on the clients' port. */
  readonly admin: RequestListener;
}

/** The duties of the process that started the workers: it serves operators, and stores what the workers record. */
export interface PrimarySeat {
  /** Starts the workers, which listen at an address that is free; resolves when all of them do. */
  start(address: string, record: (batch: PackBufferBatch) => Promise<void>): Promise<void>;
  /** Lets all workers finish and end, and kills those that take longer; resolves with how many ended badly. */
  stop(limitMs: number): Promise<number>;
  /** The metrics of all workers, also of those that have ended. */
  samples(): Promise<readonly MetricSamples[]>;
  /** The health of the upstreams as each worker sees it, by route; a worker that does not answer is not ready. */
  health(): Promise<readonly (Readonly<Record<string, string>> | undefined)[]>;
  readonly audit: SharedAuditFiles["append"];
  /** The socket for admin requests that reach a worker. */
  readonly adminSocket: string;
}

/** The options of a context that a reload may change. */
export interface ReloadableContextOptions {
  readonly parse: ParseLimits;
  readonly queueBytes: number;
  readonly bytes: ByteLimits;
  readonly sessions: SessionLimits;
  readonly eventStore: EventStoreLimits;
  readonly suspension: Pick<SuspensionLimits, "suspended" | "suspendedPerPrincipal">;
}

/** The state that outlives the process: the keys that seal what clients carry, and which sessions have ended. */
export interface GatewayState {
  /** Eight hex digits that name this process. */
  readonly node: string;
  readonly seals: Seals;
  /** Whether another process, or this one after a restart, has the same keys. */
  readonly isDurable: boolean;
  readonly ended: EndedSessions;
  readonly journal: StreamJournal;
  /** Whether other machines, or a process without the journal, may continue with the state that clients carry. */
  readonly isPortable: boolean;
  /** Absent without a state folder. */
  readonly taskOwners: TaskOwnerStore | undefined;
  /** Absent without a state folder. */
  readonly serverFacts: ServerFactsStore | undefined;
  close(): void;
}

export interface ContextOptions extends ReloadableContextOptions {
  readonly state: GatewayState;
  readonly cluster?: ClusterMember | undefined;
  /** Absent where no other gateway serves the same sessions. */
  readonly sharing?: SessionSharing | undefined;
  /** Default: buckets of this process alone. */
  readonly createBuckets?: CreateBuckets | undefined;
  readonly log: Logger;
  /** Takes secrets out of ids that senders chose, which are in labels. */
  readonly redact: (text: string) => string;
  /** Logs and records requests that were refused before they became a message. */
  readonly onRefused: (refused: RefusedRequest) => void;
  readonly clock?: Clock;
  readonly setTimer?: SetTimer;
}

/** A context together with the means to change and end it. */
export interface OwnedContext extends GatewayContext {
  apply(options: ReloadableContextOptions): void;
  close(reason: string): void;
}

/** An event, line or request that holds no message. */
const withoutMessage: Pick<Message, "id" | "kind"> = { id: undefined, kind: "error" };

const labelStart = Symbol("start of labels");

/** A session with what its labels begin with: a map of all sessions would be a table that is in no cache. */
interface LabelledSession extends SessionContext {
  [labelStart]?: string;
}

/** Creates what all routes of a gateway share: sessions, stored events, timers, metrics. */
export function createContext(options: ContextOptions): OwnedContext {
  const { log, state, clock = systemClock, setTimer = systemTimer } = options;
  const metrics = createMetrics();
  const { refusals, eventStoreBytes, messageBytes } = metrics.metrics;
  const { node, journal } = state;
  const labels = createLabeler({ node, redact: options.redact });
  const sessionless = labels.startOf(noSession);
  const startOf = (session: LabelledSession): string => (session[labelStart] ??= labels.startOf(session.label));
  let counter = 0;
  // These objects are shared, and change in place when the configuration is reloaded.
  const byteLimits = { ...options.bytes };
  const sessionLimits = { ...options.sessions };
  const eventLimits = { ...options.eventStore };
  const suspensionLimits = { ...defaultSuspensionLimits, ...options.suspension };
  const limits = { parse: { ...options.parse }, queueBytes: options.queueBytes };
  const registry = createSessionRegistry({
    limits: sessionLimits,
    clock,
    setTimer,
    newId: () => randomBytes(12).toString("base64url"),
    node,
    seal: state.seals.session,
    isDurable: state.isDurable,
    ended: state.ended,
    sharing: options.sharing,
  });
  const bytes = new ByteBudget(byteLimits);
  const events = createEventStore(eventLimits, bytes);
  metrics.onCollect(() => {
    eventStoreBytes.labels({}).set(events.bytes);
    messageBytes.labels({}).set(bytes.size);
  });
  const countRefusal = (route: string, code: ErrorCode): void => {
    refusals.labels({ route, code }).inc();
  };

  return {
    clock,
    setTimer,
    log,
    metrics,
    registry,
    events,
    bytes,
    node,
    cluster: options.cluster,
    createBuckets: options.createBuckets ?? createNamedTokenBuckets(clock.now),
    taskOwners: state.taskOwners,
    serverFacts: state.serverFacts,
    journal,
    namesCalls: state.isPortable,
    seals: state.seals,
    suspendedCalls: createSuspendedCalls({
      clock,
      setTimer,
      newId: () => randomBytes(18).toString("base64url"),
      instance: node,
      seal: state.seals.requestState,
      limits: suspensionLimits,
      bytes,
    }),
    limits,
    openWork: new OpenWork(),
    handedOver: new InFlightCounter(),
    newId: () => `${node}-${(counter++).toString(36)}`,
    newLabel: (session, message = withoutMessage) =>
      labels.labelMessage(session === undefined ? sessionless : startOf(session), message),
    noteRefusal: (refused) => {
      countRefusal(refused.route ?? "", refused.code);
      options.onRefused(refused);
    },
    countRefusal,
    reportFailure: (exchange, error) => {
      countRefusal(exchange.route, error.code);
      logFailure(log, exchange, error);
      return error;
    },
    apply: (next) => {
      Object.assign(byteLimits, next.bytes);
      Object.assign(sessionLimits, next.sessions);
      Object.assign(eventLimits, next.eventStore);
      Object.assign(suspensionLimits, next.suspension);
      Object.assign(limits.parse, next.parse);
      limits.queueBytes = next.queueBytes;
    },
    close: (reason) => {
      registry.close(reason);
    },
  };
}

function logFailure(log: Logger, exchange: Exchange, error: GatewayError): void {
  const fields = {
    exchange: exchange.id,
    trace: traceOf(exchange)?.traceId,
    route: exchange.route,
    method: shortenName(exchange.message.method),
    code: error.code,
    reason: shortenName(error.message),
    cause: error.cause instanceof Error ? (error.cause.stack ?? error.cause.message) : undefined,
  };
  log[error.facts.level](fields, "exchange failed");
}

/** The options that a configuration asks for. */
export function contextOptionsOf({ limits, sessions }: Config): ReloadableContextOptions {
  return {
    parse: { maxBytes: limits.bodyBytes, maxDepth: limits.depth, maxBatch: limits.batch },
    queueBytes: limits.queueBytes,
    bytes: { total: limits.bytes, perPrincipal: limits.bytesPerPrincipal },
    sessions: {
      sessions: limits.sessions,
      sessionsPerPrincipal: limits.sessionsPerPrincipal,
      idleMs: sessions.idleTimeout,
      ageMs: sessions.maxAge,
    },
    eventStore: limits.eventStore,
    suspension: { suspended: limits.suspendedCalls, suspendedPerPrincipal: limits.suspendedCallsPerPrincipal },
  };
}
