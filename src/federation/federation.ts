import type { Clock, Exchange, Principal, SetTimer, UpstreamTarget } from "../core/exchange.ts";
import { BoundedMap } from "../lib/bounded-map.ts";
import { andThen, type MaybePromise } from "../lib/is-promise.ts";
import type { Seals } from "../lib/keys/sealing.ts";
import { isObject } from "../lib/is-object.ts";
import { createTurnLimiter } from "../lib/turn-limiter.ts";
import { spanOf } from "../protocol/json/outline.ts";
import { memberSource, memberString, memberValue } from "../protocol/json/read.ts";
import type { Message, RequestMessage, ResultMessage } from "../protocol/message.ts";
import { methodFacts } from "../protocol/methods.ts";
import { AdvertisedNames, type NamedKind, type Resolution, type Target } from "./names/advertised-names.ts";
import { capabilityOf, createEntryReader, catalogueKey, type EntryReader } from "./lists/catalogue-entries.ts";
import { createListCursors, type ListCursors } from "./lists/list-cursor.ts";
import { type ListFacts, listFacts } from "./names/list-facts.ts";
import type { Degraded } from "./lists/list-filler.ts";
import { createRequestStates, type RequestStates, taskTarget } from "./names/member-messages.ts";
import type { FederationOptions, MemberOptions } from "./names/member-options.ts";
import { MemberFacts, type ServerFactsStore } from "./member-facts.ts";
import { GatewayError } from "../errors.ts";
import { offersExtension, type ServerFacts } from "./server-facts.ts";
import { settledWithin } from "./settled-within.ts";
import type { OwnRequestObserver } from "./member-requests.ts";
import { Recoveries } from "./recoveries.ts";
import { overrideCall, type OverriddenCall } from "./names/tool-overrides.ts";
import { createView, type View } from "./names/view.ts";
import { UriOwners } from "./names/uri-owners.ts";

export interface FederationDeps {
  readonly options: FederationOptions;
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  /** How long a member may take for a request of the federation's own. */
  readonly quickMs: number;
  readonly seals: Pick<Seals, "cursor" | "requestState">;
  /** A list lacked a member, or showed its earlier list. */
  readonly onDegraded: (method: string, degraded: Degraded, exchange: Exchange) => void;
  /** Names that several servers have are left out of a list; each name is reported once. */
  readonly onClashes: (method: string, names: readonly string[], exchange: Exchange) => void;
  /** Observes the requests of the federation itself to its members. */
  readonly observer?: OwnRequestObserver | undefined;
  /** What members said to an earlier process; absent where nothing is kept. */
  readonly factsStore?: ServerFactsStore | undefined;
  /** Identifies the server of a member, for that store. */
  readonly serverOf: (member: string) => string;
}

/** A link of the federation, for reading what names and URIs its members have. */
export interface ListSource {
  lookUp(exchange: Exchange, facts: ListFacts, members: readonly string[]): Promise<void>;
}

/** What the policy leaves of a list for the caller of an exchange; undefined if nothing. */
export type FilterList = (
  exchange: Exchange,
  request: RequestMessage,
  list: ResultMessage,
) => MaybePromise<Message | undefined>;

const none: readonly Target[] = [];
/** How many tools that overrides change are kept as their servers wrote them. */
const maxDefinitions = 10_000;
/** How many clashing names are remembered, so that each is reported once. */
const maxClashes = 10_000;
/** How many members are asked for a URI that none lists: one request must not become many. */
const maxAsked = 8;

/** The list of the Skills extension, the only one of an extension that several servers can have together. */
export const skillsMethod = "skills/list";

/** A link of the federation, for telling it about reloads. */
export interface FederationLink {
  /** Some members were replaced, taken out or put in. Resolves when the links to the old ones have ended. */
  reconfigured(changed: ReadonlySet<string>, graceMs: number): Promise<void>;
}

/** Everything that follows from the options. */
interface Configured {
  readonly options: FederationOptions;
  readonly names: AdvertisedNames;
  readonly uris: UriOwners;
  readonly members: ReadonlyMap<string, MemberOptions>;
  readonly readers: ReadonlyMap<string, EntryReader>;
  /** Tools that overrides change, as their servers wrote them. */
  readonly definitions: ReadonlyMap<string, string>;
  readonly view: View | undefined;
  readonly conditionalViews: readonly View[];
  /** Names that were reported as clashing, by method. */
  readonly knownClashes: Map<string, true>;
}

function configure(options: FederationOptions): Configured {
  const { members, view, views = [] } = options;
  const names = new AdvertisedNames(options);
  const uris = new UriOwners(members);
  const definitions = new BoundedMap<string, string>(maxDefinitions);
  return {
    options,
    names,
    uris,
    definitions,
    members: new Map(members.map((member) => [member.name, member])),
    readers: new Map(members.map((member) => [member.name, createEntryReader(member, names, uris, definitions)])),
    view: view === undefined ? undefined : createView(view),
    conditionalViews: views.filter(({ when }) => when !== undefined).map(createView),
    knownClashes: new BoundedMap(maxClashes),
  };
}

/** Several servers combined: the state that all links share. */
export class Federation {
  readonly clock: Clock;
  readonly setTimer: SetTimer;
  readonly quickMs: number;
  readonly cursors: ListCursors;
  readonly states: RequestStates;
  readonly onDegraded: FederationDeps["onDegraded"];
  readonly #onClashes: FederationDeps["onClashes"];
  readonly observer: OwnRequestObserver | undefined;
  readonly facts: MemberFacts;
  /** Limits how many sessions check a change of a member per turn. */
  readonly turn = createTurnLimiter();
  /** Servers that sessions wait for. */
  readonly recoveries: Recoveries;
  /** Filters list changes to those that a caller can see; undefined without a policy. */
  filterList: FilterList | undefined;
  /** The link of all modern requests, and those of sessions. */
  modernSource: ListSource | undefined;
  readonly sessionSources = new WeakMap<object, ListSource>();
  readonly #links = new Set<FederationLink>();
  /** Where lists of resources have been read: until then, a member could claim the URIs of others by mentioning them. */
  readonly #listsRead = new WeakSet<ListSource>();
  #configured: Configured;

  constructor(deps: FederationDeps) {
    const { options, clock, setTimer, quickMs, seals, onDegraded, onClashes, observer, factsStore, serverOf } = deps;
    this.#configured = configure(options);
    // What a server says to one caller is not for others if it knows who calls.
    this.facts = new MemberFacts(() => (this.options.hasCallerCredentials === true ? undefined : factsStore), serverOf);
    this.clock = clock;
    this.setTimer = setTimer;
    this.quickMs = quickMs;
    this.recoveries = new Recoveries(setTimer, this.turn);
    this.cursors = createListCursors(seals.cursor);
    this.states = createRequestStates(seals.requestState);
    this.onDegraded = onDegraded;
    this.#onClashes = onClashes;
    this.observer = observer;
  }

  get options(): FederationOptions {
    return this.#configured.options;
  }

  get names(): AdvertisedNames {
    return this.#configured.names;
  }

  get uris(): UriOwners {
    return this.#configured.uris;
  }

  member(name: string): MemberOptions | undefined {
    return this.#configured.members.get(name);
  }

  readerOf({ name }: MemberOptions): EntryReader {
    const reader = this.#configured.readers.get(name);
    if (reader === undefined) throw new TypeError(`no member ${name}`);
    return reader;
  }

  /** The resources of a member have changed: URIs that it no longer lists may belong to others. */
  forgetUris(member: string): void {
    this.uris.forget(member);
  }

  /** Reports names that a list lacks because several servers have them, unless they are known. */
  noteClashes(method: string, clashes: ReadonlySet<string>, exchange: Exchange): void {
    const { knownClashes } = this.#configured;
    const found = [...clashes].filter((name) => !knownClashes.has(`${method} ${name}`));
    for (const name of found) knownClashes.set(`${method} ${name}`, true);
    if (found.length > 0) this.#onClashes(method, found, exchange);
  }

  /** A member's own state in the `requestState` that a caller sent; undefined if that was not issued for the caller. */
  ownState(caller: Pick<Exchange, "route" | "principal">, text: string): string | undefined {
    return this.states.ownState(caller, this.options.members, text);
  }

  /** Notifies a link of reloads until the returned function is called. */
  join(link: FederationLink): () => void {
    this.#links.add(link);
    return () => {
      this.#links.delete(link);
    };
  }

  /**
   * Uses other options from the next message on. All names and lists are read again; links to members stay, except for
   * those named, which were replaced, taken out or put in. Resolves when the old links to them have ended.
   */
  async reconfigure(options: FederationOptions, changed: ReadonlySet<string>, graceMs: number): Promise<void> {
    this.#configured = configure(options);
    for (const name of changed) this.facts.forget(name);
    await Promise.all([...this.#links].map((link) => link.reconfigured(changed, graceMs)));
  }

  /**
   * What is known of the members once they have answered a handshake, in their order: after `wait` at the latest, unless
   * nothing is known of any member. Throws where that is so and none answers.
   */
  async factsOnce(answers: readonly Promise<unknown>[]): Promise<ReadonlyMap<string, ServerFacts>> {
    const { members, listing } = this.options;
    const known = (): ReadonlyMap<string, ServerFacts> => this.facts.lastKnownOf(members);
    const failures = await settledWithin(answers, listing.wait, this.setTimer, known().size === 0);
    const facts = known();
    if (facts.size > 0 || failures.includes(undefined)) return facts;
    const upstreams = members.map(({ name }, index) => ({ upstream: name, reason: failures[index] ?? "" }));
    const named = upstreams.map(({ upstream, reason }) => `${upstream} (${reason})`).join(", ");
    throw new GatewayError("upstream_unreachable", `no server answered: ${named}`, { details: { upstreams } });
  }

  /**
   * The targets of a request under the member's own names. Several only for a URI that no member has listed: any of
   * these may have it. None for a request without a target, or with an unknown one.
   */
  targetsOf(exchange: Exchange): MaybePromise<readonly Target[]> {
    const { message } = exchange;
    if (message.kind !== "request") return none;
    switch (message.method) {
      case "tools/call":
        return this.#named(exchange, "tool", memberString(message, "params.name"));
      case "prompts/get":
        return this.#named(exchange, "prompt", memberString(message, "params.name"));
      case "resources/read":
        return this.#located(exchange, memberString(message, "params.uri"));
      case "resources/subscribe":
      case "resources/unsubscribe":
        return andThen(this.#located(exchange, memberString(message, "params.uri")), onlyOne);
      case "completion/complete":
        return this.#referenced(exchange, message);
      case "tasks/get":
      case "tasks/cancel":
      case "tasks/update":
      case "tasks/result":
        return this.#task(memberString(message, "params.taskId"));
      default:
        return methodFacts(message.method) === undefined ? this.#extension(exchange, message) : none;
    }
  }

  /** The target of a tool call or of a request for a prompt, if no list has to be read for it. */
  knownTarget(exchange: Exchange): Target | undefined {
    const { message } = exchange;
    const kind = message.method === "tools/call" ? "tool" : message.method === "prompts/get" ? "prompt" : undefined;
    if (message.kind !== "request" || kind === undefined) return undefined;
    const resolution = this.#resolve(exchange, kind, memberString(message, "params.name"));
    return resolution?.type === "target" ? resolution.target : undefined;
  }

  /** Whether some callers find tools by searching. */
  get hasSearch(): boolean {
    const { view, conditionalViews } = this.#configured;
    return [...conditionalViews, ...(view === undefined ? [] : [view])].some(({ discovery }) => discovery === "search");
  }

  /** Whether two callers can get different lists at the same path. */
  get listsDependOnCaller(): boolean {
    const { options, conditionalViews } = this.#configured;
    return options.hasCallerCredentials === true || conditionalViews.length > 0;
  }

  /** The part that the caller of an exchange gets; undefined for everything. */
  viewOf(exchange: Exchange): View | undefined {
    const { view, conditionalViews } = this.#configured;
    if (view !== undefined || conditionalViews.length === 0) return view;
    return conditionalViews.find(({ when }) => when?.(exchange) === true);
  }

  /** The call as its server gets it, where the configuration sets or bounds arguments. */
  overridden(exchange: Exchange): OverriddenCall {
    const { message } = exchange;
    if (this.options.overrides === undefined || message.kind !== "request" || message.method !== "tools/call")
      return { exchange };
    const override = this.names.overrideOf(memberString(message, "params.name") ?? "");
    return override === undefined ? { exchange } : overrideCall(exchange, message, override);
  }

  /** The members that own the resources of a `subscriptions/listen` request; undefined where that is unknown. */
  async subscriptionTargets(exchange: Exchange): Promise<ReadonlyMap<string, Target | undefined>> {
    const uris = [...new Set(subscribedUris(exchange.message))];
    const owners = uris.map(async (uri) => onlyOne(await this.#located(exchange, uri))[0]);
    const targets = await Promise.all(owners);
    return new Map(uris.map((uri, index) => [uri, targets[index]]));
  }

  /** What the entry of a list stands for; undefined if it is not known. */
  readonly entryTarget = (principal: Principal, kind: string, name: string): UpstreamTarget | undefined => {
    if (kind === "tool" || kind === "prompt") {
      const resolution = this.names.resolve(kind, name);
      if (resolution.type !== "target") return undefined;
      const { target } = resolution;
      const definition =
        kind === "tool" ? this.#configured.definitions.get(catalogueKey(target.member, target.name)) : undefined;
      return definition === undefined ? target : { ...target, definition };
    }
    const prefixed = this.uris.prefixOwner(name);
    if (prefixed !== undefined) return prefixed;
    const member = this.uris.ownerOf(principal, name);
    return member === undefined ? undefined : { member, name };
  };

  #resolve(exchange: Exchange, kind: NamedKind, name: string | undefined): Resolution | undefined {
    if (name === undefined || this.viewOf(exchange)?.shows[kind](name) === false) return undefined;
    return this.names.resolve(kind, name);
  }

  #named(exchange: Exchange, kind: NamedKind, name: string | undefined): MaybePromise<readonly Target[]> {
    const resolution = this.#resolve(exchange, kind, name);
    if (name === undefined || resolution === undefined) return none;
    if (resolution.type !== "unlisted") return targetsIn(resolution);
    const source = this.#sourceFor(exchange);
    if (source === undefined) return none;
    const facts = listFacts(kind === "tool" ? "tools/list" : "prompts/list");
    return source.lookUp(exchange, facts, resolution.members).then(() => targetsIn(this.names.resolve(kind, name)));
  }

  #located(exchange: Exchange, uri: string | undefined, isReference = false): MaybePromise<readonly Target[]> {
    if (uri === undefined) return none;
    const view = this.viewOf(exchange);
    // A server would read another spelling, such as one with `..`, as another name than the patterns of the view do.
    if (view !== undefined && !(view.shows.resource(uri) && view.isCanonical(uri, isReference))) return none;
    const prefixed = this.uris.prefixOwner(uri);
    if (prefixed !== undefined) {
      // A decision about the URI with its prefix must also hold for the URI that the server gets.
      const isJudged = view !== undefined || this.filterList !== undefined;
      return isJudged && this.options.isCanonical?.(prefixed.name, isReference) === false ? none : [prefixed];
    }
    const { principal } = exchange;
    const source = this.#sourceFor(exchange);
    const isListRead = source === undefined || this.#listsRead.has(source);
    const owner = isListRead ? this.uris.ownerOf(principal, uri) : this.uris.listerOf(uri);
    if (owner !== undefined || source === undefined) return owner === undefined ? none : [{ member: owner, name: uri }];
    const candidates = this.options.members.flatMap(({ name, uris }) =>
      uris !== "prefix" && this.mayHave(name, "resources") ? [name] : [],
    );
    const [only, another] = candidates;
    if (only !== undefined && another === undefined) return [{ member: only, name: uri }];
    const reading = [
      source.lookUp(exchange, listFacts("resources/list"), candidates),
      source.lookUp(exchange, listFacts("resources/templates/list"), candidates),
    ];
    return Promise.all(reading).then(() => {
      this.#listsRead.add(source);
      const found = this.uris.ownerOf(principal, uri);
      const asked = found === undefined ? candidates.slice(0, maxAsked) : [found];
      return asked.map((member) => ({ member, name: uri }));
    });
  }

  #referenced(exchange: Exchange, message: Message): MaybePromise<readonly Target[]> {
    const reference: unknown = memberValue(message, "params.ref");
    if (!isObject(reference)) return none;
    const { type, name, uri } = reference;
    if (type === "ref/prompt" && typeof name === "string") return this.#named(exchange, "prompt", name);
    if (type !== "ref/resource" || typeof uri !== "string") return none;
    return andThen(this.#located(exchange, uri, true), onlyOne);
  }

  #task(id: string | undefined): readonly Target[] {
    const target = id === undefined ? undefined : taskTarget(id);
    return target === undefined || !this.#configured.members.has(target.member) ? none : [target];
  }

  /**
   * A method of an extension goes to the member that offers it; if several do, to the owner of the URI that it names.
   * Skills are listed from all of them. Views show no extensions.
   */
  #extension(exchange: Exchange, { method, outline }: RequestMessage): readonly Target[] {
    if (this.viewOf(exchange) !== undefined) return none;
    const offering = [...this.#configured.members.keys()].filter((member) => {
      const facts = this.facts.lastKnown(member);
      return facts !== undefined && offersExtension(facts, method);
    });
    const uri = spanOf(outline, "params.uri") === undefined ? undefined : memberString(exchange.message, "params.uri");
    if (offering.length > 1 && method !== skillsMethod && uri === undefined) return none;
    const known =
      uri === undefined
        ? undefined
        : (this.uris.prefixOwner(uri)?.member ?? this.uris.ownerOf(exchange.principal, uri));
    const asked = offering.filter((member) => offering.length === 1 || known === undefined || member === known);
    return asked.slice(0, maxAsked).map((member) => ({ member, name: "" }));
  }

  /** Whether a member has a capability, or may have it because it has not been reached yet. */
  mayHave(member: string, capability: string): boolean {
    const facts = this.facts.get(member);
    return facts === undefined || capabilityOf(facts.capabilities, capability) !== undefined;
  }

  #sourceFor({ session }: Exchange): ListSource | undefined {
    return session === undefined ? this.modernSource : this.sessionSources.get(session);
  }
}

function targetsIn(resolution: Resolution): readonly Target[] {
  return resolution.type === "target" ? [resolution.target] : none;
}

/** The target of a request as clients write it; undefined without one. */
function subjectOf(message: Message): string | undefined {
  if (message.method === "completion/complete") return memberSource(message, "params.ref");
  const target = methodFacts(message.method ?? "")?.target;
  if (target === undefined) return undefined;
  return memberString(
    message,
    target === "resource" ? "params.uri" : target === "task" ? "params.taskId" : "params.name",
  );
}

/** Whether a target was looked up for the name in this message. */
export function isFor(target: UpstreamTarget, message: Message): boolean {
  if (target.message === message) return true;
  return (target.message && subjectOf(target.message)) === subjectOf(message);
}

/** The resources that a `subscriptions/listen` request names. */
export function subscribedUris(message: Message): readonly string[] {
  const wanted: unknown = memberValue(message, "params.notifications");
  const uris: unknown = isObject(wanted) ? wanted["resourceSubscriptions"] : undefined;
  return Array.isArray(uris) ? uris.filter((uri) => typeof uri === "string") : [];
}

/** Completions and subscriptions must only reach the server of their target. */
function onlyOne(targets: readonly Target[]): readonly Target[] {
  return targets.length === 1 ? targets : none;
}
