import type { Exchange, UpstreamTarget } from "../core/exchange.ts";
import type { Reply } from "../core/pipeline.ts";
import { errorMessage, resultMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { andThen, isPromise, type MaybePromise } from "../lib/is-promise.ts";
import { slotOf } from "../protocol/json/outline.ts";
import { memberString, memberValue } from "../protocol/json/read.ts";
import { type Message, replaceValue, type RequestMessage } from "../protocol/message.ts";
import { methodFacts } from "../protocol/methods.ts";
import { revisions } from "../protocol/revisions.ts";
import { type ReplyCallback, requestWithCallback, settleCallback, type UpstreamLink } from "../transports/transport.ts";
import type { Catalogue } from "./lists/catalogue.ts";
import { type CatalogueEntry, formatEntries } from "./lists/catalogue-entries.ts";
import { type Federation, isFor, type ListSource } from "./federation.ts";
import { type ListFacts, listFactsOf } from "./names/list-facts.ts";
import { type FilledPage, ListFiller } from "./lists/list-filler.ts";
import { withAdvertisedTasks, withReference, withString } from "./names/member-messages.ts";
import type { MemberOptions } from "./names/member-options.ts";
import { createOwnExchange, createOwnRequest } from "./member-requests.ts";
import { withAdvertisedUris, withOwnUris } from "./names/member-uris.ts";
import { mentionedUris } from "./names/mentioned-uris.ts";
import { serverInfoOf } from "./server-facts.ts";
import { showsEntry } from "./names/view.ts";

/** A request that runs at a member. */
export interface RunningRequest {
  /** Called once, when it is over. */
  end(): void;
}

/** The connections of one client to the members. */
export interface MemberLinks {
  /** The link to a member, opened on first use. Rejects if it cannot be opened. */
  linkOf(member: MemberOptions, exchange: Exchange): MaybePromise<UpstreamLink>;
  /** What a member has listed to the caller of an exchange. */
  catalogueOf(member: MemberOptions, exchange: Exchange): Catalogue;
  /** A request starts at a member. */
  began(message: RequestMessage, member: MemberOptions): RunningRequest;
  /** The client has read a list: all of it in one page, or undefined if there are more pages. */
  listed(exchange: Exchange, facts: ListFacts, entries: readonly CatalogueEntry[] | undefined): void;
  /** A list of the client was served without the present list of a member, which failed. */
  lacked?(facts: ListFacts, member: string): void;
}

/** Routes requests to members: everything that both eras have in common. */
export class Router implements ListSource {
  readonly #federation: Federation;
  readonly #links: MemberLinks;
  readonly #filler: ListFiller;

  constructor(federation: Federation, links: MemberLinks) {
    const { clock, setTimer } = federation;
    this.#federation = federation;
    this.#links = links;
    this.#filler = new ListFiller({
      get options() {
        return federation.options;
      },
      get names() {
        return federation.names;
      },
      get uris() {
        return federation.uris;
      },
      clock,
      setTimer,
      shownTo: (exchange, facts) => {
        const view = federation.viewOf(exchange);
        return (name) => view === undefined || showsEntry(view, facts, name);
      },
      catalogueOf: (member, exchange) => links.catalogueOf(member, exchange),
    });
  }

  lookUp(exchange: Exchange, facts: ListFacts, members: readonly string[]): Promise<void> {
    return this.#filler.lookUp(exchange, facts, members);
  }

  /** Answers a request, or forwards it to its member. */
  request(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { method } = message;
    const known = exchange.tracking.upstream;
    const list = known === undefined ? listFactsOf(method) : undefined;
    if (list !== undefined) return this.#list(exchange, message, list);
    // The target was looked up before the policy decided. Looking it up again could find a different one.
    if (known === undefined || isFor(known, message)) return this.#toTarget(exchange, message, known);
    // The policy has written another name.
    const targets = this.#federation.targetsOf(exchange);
    return isPromise(targets)
      ? targets.then(([late]) => this.#toTarget(exchange, message, late))
      : this.#toTarget(exchange, message, targets[0]);
  }

  /** The whole list as this client would read it, for comparing. */
  async wholeList(exchange: Exchange, facts: ListFacts): Promise<readonly CatalogueEntry[]> {
    const entries: CatalogueEntry[] = [];
    let page = await this.#filler.fill(exchange, facts, undefined);
    entries.push(...page.entries);
    while (page.next !== undefined) {
      page = await this.#filler.fill(exchange, facts, page.next);
      entries.push(...page.entries);
    }
    return entries;
  }

  /** Whether the policy lets the caller of an exchange see one of these entries. */
  isVisible(like: Exchange, facts: ListFacts, entries: readonly CatalogueEntry[]): MaybePromise<boolean> {
    const { filterList, entryTarget } = this.#federation;
    if (filterList === undefined) return true;
    const request = createOwnRequest(like, facts.method);
    const exchange = createOwnExchange(like, request);
    exchange.tracking.entryTarget = entryTarget;
    const list = resultMessage(request.id, `{"${facts.member}":${formatEntries(entries).toString()}}`);
    return andThen(filterList(exchange, request, list), (filtered) => {
      const shown: unknown = filtered === undefined ? undefined : memberValue(filtered, "result");
      const left: unknown = isObject(shown) ? shown[facts.member] : undefined;
      return Array.isArray(left) && left.length > 0;
    });
  }

  #toTarget(exchange: Exchange, message: RequestMessage, target: UpstreamTarget | undefined): Promise<Reply> {
    const member = target === undefined ? undefined : this.#federation.member(target.member);
    if (target !== undefined && member !== undefined) return this.#forward(exchange, member, toMember(message, target));
    if (methodFacts(message.method) === undefined)
      return Promise.reject(new GatewayError("method_not_found", `method not found: ${message.method}`));
    return Promise.resolve({ message: unknownTarget(exchange, message) });
  }

  /** Sends a request to a member under its own names. Not `async`: it is on the path of every call. */
  #forward(exchange: Exchange, member: MemberOptions, message: RequestMessage): Promise<Reply> {
    let link: MaybePromise<UpstreamLink>;
    let forwarded: Exchange;
    try {
      const opened = withOwnUris(this.#federation.states.open(exchange, member, message), member);
      // Headers that repeat arguments are only forwarded with an unchanged message.
      const isChanged = exchange.message !== exchange.original;
      forwarded = { ...exchange, message: opened, original: isChanged ? exchange.original : opened };
      link = this.#links.linkOf(member, exchange);
    } catch (error) {
      return Promise.reject(failureOf(member, error));
    }
    const running = this.#links.began(message, member);
    return new Promise((resolve, reject) => {
      const call = new MemberCall(this, exchange, member, running, resolve, reject);
      try {
        if (isPromise(link))
          settleCallback(
            link.then((late) => late.request(forwarded)),
            call,
          );
        else requestWithCallback(link, forwarded, call);
      } catch (error) {
        call.reject(GatewayError.from(error));
      }
    });
  }

  /** An answer under the federation's names. Looks at the bytes first, because most answers need no change. */
  toClient(exchange: Exchange, member: MemberOptions, reply: Reply): Reply {
    const { message } = reply;
    if (message === undefined || (message.kind !== "result" && member.uris === "keep")) return reply;
    let changed: Message = withAdvertisedUris(message, member);
    if (message.kind !== "result") return changed === message ? reply : { ...reply, message: changed };
    const { states, uris } = this.#federation;
    // Nothing is read from a server that has no resources.
    if (member.uris === "keep" && this.#federation.mayHave(member.name, "resources"))
      for (const uri of mentionedUris(message)) uris.mention(member.name, exchange.principal, uri);
    if (hasOneOf(message, taskSlots)) changed = withAdvertisedTasks(changed, member.name);
    if (hasOneOf(message, inputSlots))
      changed = states.seal(exchange, member, changed, reply.hasCheckedInputRequests === true);
    return changed === message ? reply : { ...reply, message: changed };
  }

  async #list(exchange: Exchange, message: RequestMessage, facts: ListFacts): Promise<Reply> {
    const { cursors } = this.#federation;
    const cursor = memberString(message, "params.cursor");
    const place = cursor === undefined ? undefined : cursors.read(exchange, facts.method, cursor);
    if (cursor !== undefined && place === undefined)
      throw new GatewayError("invalid_params", "params.cursor is not one of this list; read the list from its start");
    const page = await this.#filler.fill(exchange, facts, place);
    for (const degraded of page.degraded) this.#federation.onDegraded(facts.method, degraded, exchange);
    this.#federation.noteClashes(facts.method, page.clashes, exchange);
    for (const member of page.failed) this.#links.lacked?.(facts, member);
    if (place === undefined) this.#links.listed(exchange, facts, page.next === undefined ? page.entries : undefined);
    const list = formatEntries(page.entries);
    if (facts.span === undefined)
      return { message: resultMessage(message.id, this.#formatPage(exchange, facts, page, list.toString())) };
    // The entries were scanned when their servers sent them.
    const empty = resultMessage(message.id, this.#formatPage(exchange, facts, page, "[]"));
    return { message: replaceValue(empty, facts.span, list) };
  }

  #formatPage(exchange: Exchange, facts: ListFacts, page: FilledPage, list: string): string {
    const { options, cursors, names } = this.#federation;
    const { entries, next, degraded, clashes, ttlMs, isPublic } = page;
    const cut = entries.filter(
      ({ name, advertised }) =>
        facts.named !== undefined && !advertised.endsWith(name) && names.overrideOf(advertised)?.name !== advertised,
    );
    const isModern = exchange.era === "modern";
    const scope = isPublic && ttlMs > 0 && !this.#federation.listsDependOnCaller ? "public" : "private";
    const meta = [
      ...(degraded.length === 0 ? [] : [`"headgate/degraded":${JSON.stringify(degraded)}`]),
      ...(clashes.size === 0 ? [] : [`"headgate/clashes":${JSON.stringify([...clashes])}`]),
      ...(cut.length === 0
        ? []
        : [
            `"headgate/cut":${JSON.stringify(Object.fromEntries(cut.map(({ name, advertised }) => [advertised, name])))}`,
          ]),
      ...(isModern ? [`"io.modelcontextprotocol/serverInfo":${serverInfoOf(options)}`] : []),
    ];
    const members = [
      ...(isModern ? ['"resultType":"complete"'] : []),
      `"${facts.member}":${list}`,
      ...(next === undefined ? [] : [`"nextCursor":${JSON.stringify(cursors.write(exchange, facts.method, next))}`]),
      ...(isModern ? [`"ttlMs":${ttlMs}`, `"cacheScope":"${scope}"`] : []),
      ...(meta.length === 0 ? [] : [`"_meta":{${meta.join(",")}}`]),
    ];
    return `{${members.join(",")}}`;
  }
}

/** One object takes less memory than two functions with what they refer to. Needed by bench federation: "call of a". */
class MemberCall implements ReplyCallback {
  readonly #router: Router;
  readonly #exchange: Exchange;
  readonly #member: MemberOptions;
  readonly #running: RunningRequest;
  readonly #resolve: (reply: Reply) => void;
  readonly #reject: (error: GatewayError) => void;

  constructor(
    router: Router,
    exchange: Exchange,
    member: MemberOptions,
    running: RunningRequest,
    resolve: (reply: Reply) => void,
    reject: (error: GatewayError) => void,
  ) {
    this.#router = router;
    this.#exchange = exchange;
    this.#member = member;
    this.#running = running;
    this.#resolve = resolve;
    this.#reject = reject;
  }

  resolve(answer: Reply): void {
    this.#running.end();
    try {
      this.#resolve(this.#router.toClient(this.#exchange, this.#member, answer));
    } catch (error) {
      this.#reject(GatewayError.from(error));
    }
  }

  reject(error: GatewayError): void {
    this.#running.end();
    this.#reject(failureOf(this.#member, error));
  }
}

const taskSlots = [
  slotOf("result.taskId"),
  slotOf("result.task"),
  slotOf("result._meta.io.modelcontextprotocol/related-task"),
];
const inputSlots = [slotOf("result.requestState"), slotOf("result.inputRequests")];

/** Whether it is the server that failed: one that takes no more requests for now fails like one of our own limits. */
export function isOfUpstream({ code, details }: GatewayError): boolean {
  return code.startsWith("upstream_") || details?.["upstreamStatus"] !== undefined;
}

/** Why a request failed, with the server that it failed at: clients know one endpoint. */
function failureOf({ name }: MemberOptions, error: unknown): GatewayError {
  const failure = GatewayError.from(error);
  if (!isOfUpstream(failure)) return failure;
  const details = { ...failure.details, upstream: name };
  return new GatewayError(failure.code, `${name}: ${failure.message}`, { details, cause: failure.cause });
}

function hasOneOf({ outline: { spans } }: Message, slots: readonly number[]): boolean {
  for (const slot of slots) if ((spans[slot] ?? -1) >= 0) return true;
  return false;
}

/** A request with the member's own name. */
function toMember(message: RequestMessage, { name, json }: UpstreamTarget): RequestMessage {
  switch (methodFacts(message.method)?.target) {
    case "tool":
    case "prompt":
      return json === undefined ? message : replaceValue(message, "params.name", json);
    case "task":
      return withString(message, "params.taskId", name);
    default:
      return json !== undefined && message.method === "completion/complete" ? withReference(message, name) : message;
  }
}

/** The error for an unknown name (MCP, Tools, Prompts and Resources, "Error Handling"). */
function unknownTarget({ revision }: Exchange, message: RequestMessage): Message {
  const target = methodFacts(message.method)?.target;
  if (target === "resource") {
    const uri = memberString(message, "params.uri");
    const code = revisions[revision].resourceNotFoundCode;
    return errorMessage(message.id, {
      code,
      message: "Resource not found",
      ...(uri === undefined ? {} : { data: { uri } }),
    });
  }
  if (target === "task") return errorMessage(message.id, { code: -32602, message: "Task not found" });
  if (target === undefined && message.method !== "completion/complete")
    return errorMessage(message.id, { code: -32601, message: `Method not found: ${message.method}` });
  const name = target === undefined ? "reference" : `${target}: ${memberString(message, "params.name")}`;
  return errorMessage(message.id, { code: -32602, message: `Unknown ${name}` });
}
