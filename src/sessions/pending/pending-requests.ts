import type { GatewayError } from "../../errors.ts";
import { UnorderedList } from "../../lib/bounded-map.ts";
import { KeyedCounter } from "../../lib/keyed-counter.ts";
import { type Diagnostic, diagnosticTable } from "../../protocol/diagnostics.ts";
import type { NotificationMessage, RequestMessage } from "../../protocol/message.ts";
import { revisions } from "../../protocol/revisions.ts";
import { createdTaskId, reportsTaskEnd } from "../../protocol/metadata.ts";
import { checkAnswer, checkIdReuse } from "../../protocol/validation/semantic.ts";
import { canTransition, correlationStates, type FinalState } from "./states.ts";
import {
  Entry,
  type EntryInit,
  type EntryOwner,
  type NotificationMatch,
  type OpenResult,
  type RequestDirection,
  type ResponseMessage,
  type ScopeDescriptor,
  type ScopeState,
  type SettleResult,
  SingleRequestLookup,
} from "./entry.ts";
import { checkCapacity, type CorrelationOptions, type CorrelatorDeps } from "./limits.ts";
import { isRetry, outcomeOf, progressTokenOf, shortName, targetOf, wantsTask } from "./message-fields.ts";
import { createMethodRules, type MethodRules, type RulesFor } from "./method-rules.ts";
import { MultiRoundTrips, type RequestIdentity } from "./multi-round-trips.ts";
import { matchNotification, type NotificationEffects } from "./notifications.ts";
import { CorrelationCounters } from "./statistics.ts";
import { type Tombstone, Tombstones, tombstoneSpace } from "./tombstones.ts";

/** The two characters that tell the type in the key of an id. */
const keyPrefix = 2;
/** Share of all slots at which the shortage is reported, and at which it is over. */
const highLevel = 0.8;
const normalLevel = 0.6;
/** The least time between two looks at all deadlines: a timeout may come this much late. */
const expiryIntervalMs = 100;

/** All requests that wait for a response, what is remembered of ended ones, and the state changes between. */
export class PendingRequests<Payload> implements EntryOwner<Payload>, NotificationEffects<Payload> {
  readonly counters = new CorrelationCounters();
  readonly tombstones: Tombstones;
  #options: CorrelatorDeps<Payload>;
  #rulesFor: RulesFor;
  readonly #operations: MultiRoundTrips;
  readonly #open = new UnorderedList<Entry<Payload>>();
  readonly #owners = new KeyedCounter();
  #isClosed = false;
  #lastNumber = 0;
  /** Ended requests whose task is still running. */
  #tasks = 0;
  #isHigh = false;
  /** When the expiry timer fires. */
  #expiryAt = Infinity;
  #stopTimer: (() => void) | undefined;

  constructor(options: CorrelatorDeps<Payload>) {
    const { limits, ttl } = options;
    this.#options = options;
    this.#rulesFor = createMethodRules(ttl);
    this.tombstones = new Tombstones(limits.tombstones, limits.tombstoneMs);
    this.#operations = new MultiRoundTrips({
      waiting: limits.operations,
      waitingMs: ttl.humanMs,
      rounds: limits.rounds,
    });
  }

  /** Applies other limits and timeouts to requests opened from now on. */
  configure({ limits, ttl }: CorrelationOptions): void {
    this.#options = { ...this.#options, limits, ttl };
    this.#rulesFor = createMethodRules(ttl);
  }

  get size(): number {
    return this.#open.size;
  }

  /** Monotonic milliseconds. */
  get now(): number {
    return this.#options.clock.now();
  }

  /** Tracks a request, before it is sent; or says why it must be refused. */
  open(init: EntryInit<Payload>): OpenResult<Payload> {
    const { scope, message } = init;
    const rules = this.#rulesFor(message.method, message);
    const token = progressTokenOf(message);
    const idLength = Math.max(message.id.key.length, token?.key.length ?? 0) - keyPrefix;
    const error = this.#makeRoom(init, rules, idLength);
    if (error !== undefined) {
      this.counters.refused++;
      return { ok: false, error };
    }
    const { now } = this;
    const entry = new Entry(this, init, rules, ++this.#lastNumber, now);
    entry.token = token;
    this.counters.opened++;
    this.#open.add(entry);
    this.#owners.add(ownerOf(init.place));
    this.#expireAt(now + Math.min(rules.inactivityMs, rules.hardMs), now);
    if (scope !== undefined) this.#addToScope(scope, entry, message, now);
    this.#readTarget(entry, message, now);
    if (!this.#isHigh && this.#open.size >= this.#options.limits.total * highLevel) {
      this.#isHigh = true;
      this.report(diagnosticTable["pending.high"], undefined);
    }
    return { ok: true, entry };
  }

  settle(entry: Entry<Payload>, response: ResponseMessage): SettleResult<Payload> {
    if (!entry.isOpen) return this.strayResponse(response, entry, entry);
    const { now } = this;
    const { place, rules } = entry;
    const state = outcomeOf(response, place.revision);
    this.counters.matched++;
    if (state === "input_required") {
      const operation = entry.operation ?? { number: entry.number, startedAt: entry.openedAt, rounds: 0 };
      this.#operations.awaitInput(operation, identityOf(entry), response, now);
    } else {
      this.counters.operated(rules.row, now - (entry.operation?.startedAt ?? entry.openedAt));
    }
    if (entry.wantsTask) {
      const task = createdTaskId(response);
      entry.createdTask = task === undefined ? undefined : shortName(task);
    }
    this.#end(entry, state, now);
    const { scope, target, direction } = entry;
    if (rules.isAboutTask && scope !== undefined && target !== undefined) {
      if (reportsTaskEnd(entry.method, response)) this.endTask(scope, direction, target);
    }
    return { outcome: "match", entry };
  }

  /** Counts a response without an open request: late or duplicate if the request has ended, else an orphan (SC-052). */
  strayResponse(
    response: ResponseMessage,
    ended: Tombstone | undefined,
    about: Entry<Payload> | undefined,
  ): SettleResult<Payload> {
    const isDuplicate = ended !== undefined && correlationStates[ended.state].answer === "duplicate";
    const left = ended === undefined ? "none" : isDuplicate ? "answered" : "given-up";
    for (const diagnostic of checkAnswer(response, left)) this.report(diagnostic, about);
    const outcome = ended === undefined ? "orphan" : isDuplicate ? "duplicate" : "late";
    this.counters.stray(outcome);
    if (ended === undefined || outcome === "orphan") return { outcome: "orphan" };
    return { outcome, of: { number: ended.number, state: ended.state, endedAt: ended.endedAt } };
  }

  notify(
    entry: Entry<Payload>,
    direction: RequestDirection,
    notification: NotificationMessage,
  ): NotificationMatch<Payload> {
    const lookup = entry.scope ?? new SingleRequestLookup(entry);
    const match = matchNotification(lookup, this, direction, notification);
    // A log line, for example, names no request, but arrived on this one's stream.
    if (match.type === "unrelated" && direction !== entry.direction) this.touch(entry);
    return match;
  }

  touch(entry: Entry<Payload>): void {
    entry.activeAt = this.now;
    if (canTransition(entry.state, "streaming")) entry.state = "streaming";
  }

  end(entry: Entry<Payload>, state: FinalState): boolean {
    return this.#end(entry, state, this.now);
  }

  close(entry: Entry<Payload>): boolean {
    return this.end(entry, closingState(entry.place));
  }

  report(diagnostic: Diagnostic, about: Entry<Payload> | undefined): void {
    this.#options.onDiagnostic?.(diagnostic, about);
  }

  /** Ends everything that is open in a scope, at once (SC-058). */
  endScope(scope: ScopeState<Payload>): void {
    scope.isOver = true;
    for (let entry = scope.pending[0]; entry !== undefined; entry = scope.pending[0]) this.close(entry);
    for (let entry = scope.tasks[0]; entry !== undefined; entry = scope.tasks[0]) this.#releaseTask(scope, entry);
  }

  /** Releases the progress token of a task that has ended. */
  endTask(scope: ScopeState<Payload>, direction: RequestDirection, taskId: string): void {
    if (scope.tasks.length === 0) return;
    const task = shortName(taskId);
    const entry = scope.tasks.find((one) => one.createdTask === task && one.direction === direction);
    if (entry !== undefined) this.#releaseTask(scope, entry);
  }

  /** Ends everything, accepts nothing more and stops the timer. */
  shutdown(): void {
    this.#isClosed = true;
    for (const entry of this.#open.items.toSorted((a, b) => a.number - b.number)) this.close(entry);
    this.#stopTimer?.();
  }

  /** Why a request is refused; an observing correlator evicts the oldest entry instead. */
  #makeRoom(init: EntryInit<Payload>, rules: MethodRules, idLength: number): GatewayError | undefined {
    const { limits, mode } = this.#options;
    const ownCount = this.#owners.of(ownerOf(init.place));
    const check = checkCapacity({ init, rules, idLength, ownCount }, this.#isClosed, this.#open.items, limits);
    if (check.type === "room") return undefined;
    if (check.type === "refused" || mode === "terminate") return check.error;
    const oldest = oldestOf(check.among);
    if (oldest === undefined) return check.error;
    this.report(diagnosticTable["pending.evicted"], oldest);
    this.end(oldest, "evicted");
    return undefined;
  }

  #addToScope(scope: ScopeState<Payload>, entry: Entry<Payload>, message: RequestMessage, now: number): void {
    const { token, direction } = entry;
    if (direction === "server-to-client") scope.openServerRequests++;
    this.#checkReuse(scope, entry, message, now);
    // The listener that heard of a superseded request may have ended the whole scope.
    if (scope.isOver) {
      this.close(entry);
      return;
    }
    if (token !== undefined && scope.progressListener(direction, token.key) !== undefined) {
      this.report(diagnosticTable["progress.token-reused"], entry);
    }
    scope.pending.push(entry);
  }

  /** A request takes over an id in flight; reuse of an ended one is reported if the revision forbids it (SC-053). */
  #checkReuse(scope: ScopeState<Payload>, entry: Entry<Payload>, message: RequestMessage, now: number): void {
    const { direction, place } = entry;
    const { key } = message.id;
    if (scope.isNewId(direction, key)) return;
    const older = scope.request(direction, key);
    const wasUsed =
      older === undefined &&
      revisions[place.revision].idUniqueness === "session" &&
      scope.ended(direction, key) !== undefined;
    if (older === undefined && !wasUsed) return;
    if (older !== undefined) {
      this.report(diagnosticTable["id.superseded"], older);
      this.#end(older, "superseded", now);
    }
    const used = { isInFlight: older !== undefined, wasUsed };
    for (const diagnostic of checkIdReuse(message, used, place.revision)) this.report(diagnostic, entry);
  }

  /** Reads what later messages may refer to. */
  #readTarget(entry: Entry<Payload>, message: RequestMessage, now: number): void {
    const { rules, place } = entry;
    const facts = revisions[place.revision];
    if (facts.tasks === "core") {
      entry.wantsTask = wantsTask(message);
      if (rules.isAboutTask) entry.target = targetOf(message, "params.taskId");
    }
    if (!facts.inputRequired || !rules.mayAskInput || rules.nameSource === undefined) return;
    entry.target = targetOf(message, rules.nameSource);
    if (!isRetry(message)) return;
    const match = this.#operations.matchRetry(identityOf(entry), message, now);
    if (match.ok) entry.operation = match.operation;
    else this.report(diagnosticTable[match.finding], entry);
  }

  #end(entry: Entry<Payload>, state: FinalState, now: number): boolean {
    if (!canTransition(entry.state, state)) return false;
    entry.state = state;
    entry.endedAt = now;
    this.counters.ended(state);
    this.#open.delete(entry);
    this.#owners.remove(ownerOf(entry.place));
    if (entry.scope !== undefined) this.#removeFromScope(entry.scope, entry, now);
    if (this.#isHigh && this.#open.size < this.#options.limits.total * normalLevel) this.#isHigh = false;
    this.#options.onFinished?.(entry);
    // The payload may hold a whole message, and a task may run for hours.
    if (entry.createdTask !== undefined) entry.payload = undefined;
    return true;
  }

  #removeFromScope(scope: ScopeState<Payload>, entry: Entry<Payload>, now: number): void {
    const { id, direction } = entry;
    remove(scope.pending, entry);
    if (direction === "server-to-client") {
      scope.openServerRequests--;
      scope.serverRequestEndedAt = now;
    }
    this.tombstones.add(tombstoneSpace(scope, direction, "id"), id.key, entry);
    if (entry.token === undefined) return;
    if (entry.createdTask === undefined || scope.isOver) this.#releaseToken(scope, entry);
    else this.#keepTask(scope, entry);
  }

  /** The progress token of a task is live until the task ends (MCP 2025-11-25, Tasks) or the limit is reached. */
  #keepTask(scope: ScopeState<Payload>, entry: Entry<Payload>): void {
    const { perScope, total } = this.#options.limits;
    scope.tasks.push(entry);
    this.#tasks++;
    if (scope.tasks.length > perScope || this.#tasks > total) this.#releaseTask(scope, scope.tasks[0] ?? entry);
  }

  #releaseTask(scope: ScopeState<Payload>, entry: Entry<Payload>): void {
    remove(scope.tasks, entry);
    this.#tasks--;
    this.#releaseToken(scope, entry);
  }

  #releaseToken(scope: ScopeState<Payload>, entry: Entry<Payload>): void {
    if (entry.token === undefined) return;
    this.tombstones.add(tombstoneSpace(scope, entry.direction, "token"), entry.token.key, entry);
  }

  /**
   * One timer serves all deadlines. It is set for the earliest one and not moved when that entry ends: in steady
   * traffic it fires a few times a minute, and looking at every open entry then is cheap.
   */
  #expireAt(deadline: number, now: number): void {
    if (deadline >= this.#expiryAt || this.#isClosed) return;
    this.#stopTimer?.();
    this.#expiryAt = deadline;
    this.#stopTimer = this.#options.setTimer(Math.max(deadline - now, 1), () => {
      this.#expiryAt = Infinity;
      this.#expire();
    });
  }

  #expire(): void {
    const { now } = this;
    let next = Infinity;
    for (const entry of this.#open.items.slice()) {
      const deadline = deadlineOf(entry, now);
      if (deadline > now) next = Math.min(next, deadline);
      else this.#end(entry, "timed_out", now);
    }
    this.#expireAt(Math.max(next, now + expiryIntervalMs), now);
  }
}

function deadlineOf({ rules, scope, direction, activeAt, openedAt }: Entry<unknown>, now: number): number {
  let quietSince = activeAt ?? openedAt;
  if (scope !== undefined && direction === "client-to-server") {
    // A call is not idle while the server waits for the client, and which call asked is not always known.
    quietSince = scope.openServerRequests > 0 ? now : Math.max(quietSince, scope.serverRequestEndedAt);
  }
  return Math.min(quietSince + rules.inactivityMs, openedAt + rules.hardMs);
}

/** MCP 2026-07-28, Streamable HTTP: closing the response stream cancels; elsewhere the end of a scope says nothing. */
function closingState({ kind, revision }: ScopeDescriptor): FinalState {
  return kind === "exchange" && revisions[revision].closeCancels ? "cancelled" : "abandoned";
}

function ownerOf({ owner, realm }: ScopeDescriptor): string {
  return owner ?? realm;
}

function identityOf({ place, method, target }: Entry<unknown>): RequestIdentity {
  return { realm: place.realm, method, target };
}

function oldestOf<Payload>(entries: readonly Entry<Payload>[]): Entry<Payload> | undefined {
  let [oldest] = entries;
  for (const entry of entries) if (oldest === undefined || entry.number < oldest.number) oldest = entry;
  return oldest;
}

function remove<Item>(list: Item[], item: Item): void {
  const index = list.indexOf(item);
  if (index >= 0) list.splice(index, 1);
}
