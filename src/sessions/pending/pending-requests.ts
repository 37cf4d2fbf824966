import type { GatewayError } from "../../errors.ts";
import type { Diagnostic, NotificationMessage, RequestMessage } from "../../protocol/message.ts";
import { revisions } from "../../protocol/revisions.ts";
import { createdTaskId, reportsTaskEnd } from "../../protocol/metadata.ts";
import { checkAnswer, checkIdReuse } from "../../protocol/validation/semantic.ts";
import { checkCapacity, type CorrelationOptions, type CorrelatorDeps, type CorrelatorPhase } from "./limits.ts";
import { DeadlineWheel } from "./deadline-wheel.ts";
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
  spaceOf,
} from "./entry.ts";
import { correlationDiagnostics } from "./diagnostics.ts";
import { KeyIndex, KeyNode } from "./key-index.ts";
import { LinkList } from "./link-list.ts";
import { createMethodRules, type MethodRules, type RulesFor, streamRules } from "./method-rules.ts";
import { matchNotification, type NotificationEffects } from "./notifications.ts";
import { MultiRoundTrips, type RequestIdentity } from "./multi-round-trips.ts";
import { ProgressTokens } from "./progress-tokens.ts";
import { isRetry, outcomeOf, progressTokenOf, shortName, targetOf, wantsTask } from "./message-fields.ts";
import { canTransition, correlationStates, type FinalState } from "./states.ts";
import { CorrelationCounters } from "./statistics.ts";
import { type Tombstone, Tombstones } from "./tombstones.ts";

/** The books of a correlator: every open entry, what finished ones left behind, and the moves between. */
export class PendingRequests<Payload> implements EntryOwner<Payload>, NotificationEffects<Payload> {
  readonly counters = new CorrelationCounters();
  /** Open requests by id, within scopes. */
  readonly ids = new KeyIndex<Entry<Payload>>();
  readonly tokens: ProgressTokens<Payload>;
  readonly tombstones: Tombstones;
  #options: CorrelatorDeps<Payload>;
  #planOf: RulesFor;
  readonly #operations: MultiRoundTrips;
  readonly #wheel: DeadlineWheel<Entry<Payload>>;
  /** Every open entry, in order of opening. */
  readonly #open = new LinkList<Entry<Payload>>();
  readonly #drained = Promise.withResolvers<void>();
  #phase: CorrelatorPhase = "running";
  #lastNumber = 0;
  #streams = 0;
  #isHigh = false;

  constructor(options: CorrelatorDeps<Payload>) {
    const { limits, ttl, clock, setTimer } = options;
    this.#options = options;
    this.#planOf = createMethodRules(ttl);
    this.tombstones = new Tombstones(limits.tombstones, limits.tombstoneMs);
    this.tokens = new ProgressTokens(this.tombstones, limits);
    const waitingMs = ttl.humanMs;
    this.#operations = new MultiRoundTrips({ waiting: limits.operations, waitingMs, rounds: limits.rounds });
    this.#wheel = new DeadlineWheel({ clock, setTimer, due: (entry, now) => this.#due(entry, now) });
  }

  /** Takes up other bounds for requests and other times for those that come from now on. */
  configure({ limits, ttl }: CorrelationOptions): void {
    this.#options = { ...this.#options, limits, ttl };
    this.#planOf = createMethodRules(ttl);
  }

  get size(): number {
    return this.#open.size;
  }

  /** Monotonic milliseconds. */
  get now(): number {
    return this.#options.clock.now();
  }

  /** Tracks a request from before it is written, or says why it must not go on. */
  open(facts: EntryInit<Payload>): OpenResult<Payload> {
    const { scope, message } = facts;
    const plan = message === undefined ? streamRules : this.#planOf(message.method, message);
    const token = message === undefined ? undefined : progressTokenOf(message);
    const idLength = Math.max(message?.id.key.length ?? 0, token?.key.length ?? 0) - keyPrefix;
    const error = this.#refusal(facts, plan, idLength);
    if (error !== undefined) {
      this.counters.refused++;
      return { ok: false, error };
    }
    const { now } = this;
    const entry = new Entry(this, facts, plan, ++this.#lastNumber, now);
    entry.token = token;
    this.counters.opened++;
    this.#open.append(entry.ageLink);
    if (plan.isStream) this.#streams++;
    if (entry.deadlineLink !== undefined) {
      this.#wheel.file(entry.deadlineLink, now + Math.min(plan.inactivityMs, plan.hardMs), now);
    }
    if (scope !== undefined) this.#enter(scope, entry, message, now);
    if (message !== undefined) this.#note(entry, message, now);
    if (!this.#isHigh && this.#open.size >= this.#options.limits.total * highLevel) {
      this.#isHigh = true;
      this.report(correlationDiagnostics["pending.high"], undefined);
    }
    return { ok: true, entry };
  }

  settle(entry: Entry<Payload>, answer: ResponseMessage): SettleResult<Payload> {
    if (!entry.isOpen) return this.strayAnswer(answer, entry, entry);
    const { now } = this;
    const { place, plan } = entry;
    const state = outcomeOf(answer, place.revision);
    this.counters.answered(plan.row, now - entry.openedAt);
    if (state === "input_required") {
      const operation = entry.operation ?? { number: entry.number, startedAt: entry.openedAt, rounds: 0 };
      this.#operations.awaitInput(operation, askingOf(entry), answer, now);
    } else {
      this.counters.operated(plan.row, now - (entry.operation?.startedAt ?? entry.openedAt));
    }
    if (entry.wantsTask) {
      const task = createdTaskId(answer);
      entry.createdTask = task === undefined ? undefined : shortName(task);
    }
    this.#end(entry, state, now);
    const { scope, target, direction } = entry;
    if (plan.isAboutTask && scope !== undefined && target !== undefined) {
      if (reportsTaskEnd(entry.method, answer)) this.tokens.endTask(scope, direction, target);
    }
    return { standing: "match", entry };
  }

  /** Counts an answer that finds no open request: late or duplicate if one ended, else an orphan (SC-052). */
  strayAnswer(
    answer: ResponseMessage,
    ended: Tombstone | undefined,
    about: Entry<Payload> | undefined,
  ): SettleResult<Payload> {
    const isDuplicate = ended !== undefined && correlationStates[ended.state].answer === "duplicate";
    const left = ended === undefined ? "none" : isDuplicate ? "answered" : "given-up";
    for (const diagnostic of checkAnswer(answer, left)) this.report(diagnostic, about);
    const standing = ended === undefined ? "orphan" : isDuplicate ? "duplicate" : "late";
    this.counters.stray(standing);
    if (ended === undefined || standing === "orphan") return { standing: "orphan" };
    return { standing, of: { number: ended.number, state: ended.state, endedAt: ended.endedAt } };
  }

  notify(
    entry: Entry<Payload>,
    direction: RequestDirection,
    notification: NotificationMessage,
  ): NotificationMatch<Payload> {
    const standing = matchNotification(entry.scope ?? new SingleRequestLookup(entry), this, direction, notification);
    // A log line, say: it belongs to nothing in particular, but somebody is at work.
    if (standing.type === "unrelated" && direction !== entry.direction) this.touch(entry);
    return standing;
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

  /** Ends all that is open in a scope, at once (SC-058). */
  endScope(scope: ScopeState<Payload>): void {
    scope.isOver = true;
    while (scope.pending.first !== undefined) this.close(scope.pending.first.item);
    this.tokens.dropTasks(scope);
  }

  /** Takes no new requests of clients; resolves when all but streams have ended. */
  async drain(): Promise<void> {
    if (this.#phase === "running") this.#phase = "draining";
    this.#checkDrained();
    await this.#drained.promise;
  }

  /** Ends everything and stops the timer. */
  shutdown(): void {
    this.#phase = "closed";
    while (this.#open.first !== undefined) this.close(this.#open.first.item);
    this.#checkDrained();
    this.#wheel.stop();
  }

  /** Why a request is refused; while observing, room is made instead. */
  #refusal(facts: EntryInit<Payload>, plan: MethodRules, idLength: number): GatewayError | undefined {
    const { limits, mode } = this.#options;
    const admission = checkCapacity({ facts, plan, idLength }, this.#phase, this.#open, limits);
    if (admission.type === "room") return undefined;
    if (admission.type === "refused" || mode === "terminate") return admission.error;
    const { oldest } = admission;
    if (oldest === undefined) return admission.error;
    this.report(correlationDiagnostics["pending.evicted"], oldest);
    this.end(oldest, "evicted");
    return undefined;
  }

  #enter(scope: ScopeState<Payload>, entry: Entry<Payload>, message: RequestMessage | undefined, now: number): void {
    const { token, scopeLink, direction } = entry;
    if (scopeLink !== undefined) scope.pending.append(scopeLink);
    if (direction === "server-to-client") scope.questions++;
    const space = spaceOf(scope, direction);
    if (message !== undefined) {
      this.#checkReuse(entry, message, space, now);
      // Whoever was told of a superseded request may have ended the whole scope.
      if (!entry.isOpen) return;
      entry.idNode = new KeyNode(space, message.id.key, entry);
      this.ids.add(entry.idNode);
    }
    if (token !== undefined) {
      const isTaken = this.tokens.find(space, token.key) !== undefined;
      if (isTaken) this.report(correlationDiagnostics["progress.token-reused"], entry);
      this.tokens.add(space, token.key, entry);
    }
  }

  /** An id in flight is taken over; one used before is remarked on where the revision forbids it (SC-053). */
  #checkReuse(entry: Entry<Payload>, message: RequestMessage, space: number, now: number): void {
    const { key } = message.id;
    const older = this.ids.find(space, key);
    const { revision } = entry.place;
    const wasUsed =
      older === undefined &&
      revisions[revision].idUniqueness === "session" &&
      this.tombstones.find(space, key, now) !== undefined;
    if (older === undefined && !wasUsed) return;
    if (older !== undefined) {
      this.report(correlationDiagnostics["id.superseded"], older);
      this.#end(older, "superseded", now);
    }
    const used = { isInFlight: older !== undefined, wasUsed };
    for (const diagnostic of checkIdReuse(message, used, revision)) this.report(diagnostic, entry);
  }

  /** Reads what later messages may refer to. */
  #note(entry: Entry<Payload>, message: RequestMessage, now: number): void {
    const { plan, place } = entry;
    const facts = revisions[place.revision];
    if (facts.tasks === "core") {
      entry.wantsTask = wantsTask(message);
      if (plan.isAboutTask) entry.target = targetOf(message, "params.taskId");
    }
    if (!facts.inputRequired || !plan.mayAskInput || plan.nameSource === undefined) return;
    entry.target = targetOf(message, plan.nameSource);
    if (!isRetry(message)) return;
    const joining = this.#operations.matchRetry(askingOf(entry), message, now);
    if (joining.ok) entry.operation = joining.operation;
    else this.report(correlationDiagnostics[joining.finding], entry);
  }

  #end(entry: Entry<Payload>, state: FinalState, now: number): boolean {
    if (!canTransition(entry.state, state)) return false;
    entry.state = state;
    entry.endedAt = now;
    this.counters.ended(state);
    entry.ageLink.leave();
    if (entry.deadlineLink !== undefined) this.#wheel.drop(entry.deadlineLink);
    if (entry.plan.isStream) this.#streams--;
    if (entry.scope !== undefined) this.#leave(entry.scope, entry, now);
    if (this.#isHigh && this.#open.size < this.#options.limits.total * calmLevel) this.#isHigh = false;
    this.#options.onFinished?.(entry);
    // What it was opened with may hold a whole message; a task may live for hours.
    if (entry.createdTask !== undefined) entry.payload = undefined;
    if (this.#phase !== "running") this.#checkDrained();
    return true;
  }

  #leave(scope: ScopeState<Payload>, entry: Entry<Payload>, now: number): void {
    const { idNode, scopeLink, direction } = entry;
    scopeLink?.leave();
    if (direction === "server-to-client") {
      scope.questions--;
      scope.answeredAt = now;
    }
    if (idNode !== undefined) {
      this.ids.delete(idNode);
      this.tombstones.add(idNode.space, idNode.key, entry);
    }
    this.tokens.release(scope, entry);
  }

  #checkDrained(): void {
    if (this.#open.size === this.#streams) this.#drained.resolve();
  }

  /** Ends an entry whose time has come, or says when to ask again. */
  #due(entry: Entry<Payload>, now: number): number | undefined {
    const { plan, scope } = entry;
    let quietSince = entry.activeAt ?? entry.openedAt;
    if (scope !== undefined && entry.direction === "client-to-server") {
      // A call is not idle while the server waits for the client, and which call asked is not always known.
      quietSince = scope.questions > 0 ? now : Math.max(quietSince, scope.answeredAt);
    }
    const deadline = Math.min(quietSince + plan.inactivityMs, entry.openedAt + plan.hardMs);
    if (deadline > now) return deadline;
    this.#end(entry, "timed_out", now);
    return undefined;
  }
}

/** The two characters that tell the type in the key of an id. */
const keyPrefix = 2;
/** Shares of all slots at which the shortage is reported, and at which it is over. */
const highLevel = 0.8;
const calmLevel = 0.6;

/** MCP 2026-07-28, Streamable HTTP: closing the response stream cancels; elsewhere the end of a place says nothing. */
function closingState({ kind, revision }: ScopeDescriptor): FinalState {
  return kind === "exchange" && revisions[revision].closeCancels ? "cancelled" : "abandoned";
}

function askingOf({ place, method, target }: Entry<unknown>): RequestIdentity {
  return { realm: place.realm, method, target };
}
