import { randomBytes } from "node:crypto";
import type { Agent } from "node:http";

import {
  createSuspendedCalls,
  defaultSuspensionLimits,
  type SuspendedCalls,
  type SuspensionLimits,
} from "../bridge/modern-to-legacy/suspended-calls.ts";
import type { SubjectTokens } from "../auth/upstream-credentials.ts";
import type { Config } from "../config/config.ts";
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
import type { Seal, Seals } from "../lib/keys/sealing.ts";
import { OpenWork } from "../core/open-work.ts";
import { createLabeler, noSession } from "../protocol/ids/label.ts";
import type { Message, ParseLimits } from "../protocol/message.ts";
import type { EndedSessions } from "../sessions/ended-sessions.ts";
import { createEventStore, type EventStore, type EventStoreLimits } from "../sessions/event-store.ts";
import { createSessionRegistry, type SessionLimits, type SessionRegistry } from "../sessions/registry.ts";
import type { SessionRecord } from "../sessions/session-record.ts";
import type { StreamJournal } from "../sessions/stream-journal.ts";
import type { TaskOwnerStore } from "../sessions/task-owner-store.ts";
import { type Logger, shortenName } from "../telemetry/log.ts";
import { createMetrics, type Metrics } from "../telemetry/metrics.ts";
import { traceOf } from "../telemetry/trace-context.ts";

/** What all parts of a running gateway share. */
export interface GatewayContext {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly registry: SessionRegistry;
  readonly events: EventStore;
  /** Who started tasks before a restart; absent where nothing is kept. */
  readonly taskOwners: TaskOwnerStore | undefined;
  /** Absent where this gateway has no peers. */
  readonly cluster: ClusterMember | undefined;
  /** Notes which calls are answered by streams, for the process after this one. */
  readonly journal: StreamJournal;
  /** Calls of modern clients that wait for input a legacy server asked for. */
  readonly suspendedCalls: SuspendedCalls;
  /** Seals what clients carry and must not change. */
  readonly seals: Seals;
  /** Read when needed: a reload changes them in place. */
  readonly limits: { readonly parse: ParseLimits; readonly queueBytes: number };
  /** Everything that clients wait for: HTTP requests to the last byte of their answer, and messages to their answer. */
  readonly openWork: OpenWork;
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
  /** The gateways that started tasks; from then on `get` knows the owners. Rejects while nobody can say. */
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
  /** The URLs of the other gateways, by node. */
  readonly peers: ReadonlyMap<string, string>;
  /** The node that serves a session whose server lives in one process. Rejects while nobody can say. */
  ownerOf(session: Pick<SessionRecord, "id" | "openedBy">): Promise<string>;
  readonly tasks: SharedTasks;
}

/** The options of a context that a reload may change. */
export interface ReloadableContextOptions {
  readonly parse: ParseLimits;
  readonly queueBytes: number;
  readonly sessions: SessionLimits;
  readonly eventStore: EventStoreLimits;
  readonly suspension: Pick<SuspensionLimits, "suspended" | "suspendedPerPrincipal">;
}

/** What outlives the process: the keys of everything that clients carry, and which sessions have ended. */
export interface GatewayState {
  /** Eight hex digits that name this process. */
  readonly node: string;
  readonly seals: Seals;
  /** Whether another process, or this one after a restart, has the same keys. */
  readonly isDurable: boolean;
  readonly ended: EndedSessions;
  readonly journal: StreamJournal;
  /** Absent where nothing is kept. */
  readonly taskOwners: TaskOwnerStore | undefined;
  close(): void;
}

export interface ContextOptions extends ReloadableContextOptions {
  readonly state: GatewayState;
  readonly cluster?: ClusterMember | undefined;
  readonly log: Logger;
  /** Takes secrets out of ids that senders chose, which are in labels. */
  readonly redact: (text: string) => string;
  /** Logs and records requests that were refused at the door. */
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

/** Creates what all routes of a gateway share: sessions, stored events, timers, metrics. */
export function createContext(options: ContextOptions): OwnedContext {
  const { log, state, clock = systemClock, setTimer = systemTimer } = options;
  const metrics = createMetrics();
  const { refusals, eventStoreBytes } = metrics.metrics;
  const { node, journal } = state;
  const labels = createLabeler({ node, redact: options.redact });
  let counter = 0;
  // These objects are shared, and change in place when the configuration is reloaded.
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
  });
  const events = createEventStore(eventLimits);
  metrics.onCollect(() => {
    eventStoreBytes.labels({}).set(events.bytes);
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
    cluster: options.cluster,
    taskOwners: state.taskOwners,
    journal,
    seals: state.seals,
    suspendedCalls: createSuspendedCalls({
      clock,
      setTimer,
      newId: () => randomBytes(18).toString("base64url"),
      instance: node,
      seal: state.seals.requestState,
      limits: suspensionLimits,
    }),
    limits,
    openWork: new OpenWork(),
    newId: () => `${node}-${(counter++).toString(36)}`,
    newLabel: (session, message = withoutMessage) => labels.labelMessage(session?.label ?? noSession, message),
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
