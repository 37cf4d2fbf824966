import type { Exchange, UpstreamTarget } from "../core/exchange.ts";
import type { Reply } from "../core/pipeline.ts";
import { errorMessage, resultMessage } from "../core/reply.ts";
import { GatewayError } from "../errors.ts";
import { isObject } from "../lib/is-object.ts";
import { andThen, isPromise, type MaybePromise } from "../lib/is-promise.ts";
import { slotOf } from "../protocol/json/outline.ts";
import { memberString, memberValue } from "../protocol/json/read.ts";
import type { Message, RequestMessage } from "../protocol/message.ts";
import { methodFacts } from "../protocol/methods.ts";
import { revisions } from "../protocol/revisions.ts";
import type { UpstreamLink } from "../transports/transport.ts";
import type { Catalogue } from "./lists/catalogue.ts";
import type { CatalogueEntry } from "./lists/catalogue-entries.ts";
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

/** The connections of one client to the members. */
export interface MemberLinks {
  /** The link to a member, opened on first use. Rejects if it cannot be opened. */
  linkOf(member: MemberOptions, exchange: Exchange): MaybePromise<UpstreamLink>;
  /** What a member has listed to the caller of an exchange. */
  catalogueOf(member: MemberOptions, exchange: Exchange): Catalogue;
  /** A request begins to run at a member; the returned function is called when it is over. */
  began?(exchange: Exchange, member: MemberOptions): () => void;
  /** The client reads a list: the whole one in one page, or undefined where there is more. */
  listed(exchange: Exchange, facts: ListFacts, entries: readonly CatalogueEntry[] | undefined): void;
}

/** Takes requests to the members that they are about: everything that both eras have in common. */
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

  /** Answers a request, or takes it to its member. */
  request(exchange: Exchange, message: RequestMessage): Promise<Reply> {
    const { method } = message;
    const known = exchange.tracking.upstream;
    const list = known === undefined ? listFactsOf(method) : undefined;
    if (list !== undefined) return this.#list(exchange, message, list);
    // The target was looked up before the policy decided. Looking again now could find one that it knew nothing about.
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
    const list = resultMessage(request.id, `{${formatEntries(facts, entries)}}`);
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

  /** Sends a request to a member, in its words. Not `async`: it is on the way of every call. */
  #forward(exchange: Exchange, member: MemberOptions, message: RequestMessage): Promise<Reply> {
    let link: MaybePromise<UpstreamLink>;
    let forwarded: Exchange;
    try {
      const opened = withOwnUris(this.#federation.states.open(exchange, member, message), member);
      // Headers that repeat arguments are forwarded with a message that is as it came.
      const isChanged = exchange.message !== exchange.original;
      forwarded = { ...exchange, message: opened, original: isChanged ? exchange.original : opened };
      link = this.#links.linkOf(member, exchange);
    } catch (error) {
      return Promise.reject(GatewayError.from(error));
    }
    const over = this.#links.began?.(exchange, member);
    const reply = isPromise(link) ? link.then((late) => late.request(forwarded)) : link.request(forwarded);
    return reply.then(
      (answer) => {
        over?.();
        return this.#toClient(exchange, member, answer);
      },
      (error: unknown) => {
        over?.();
        throw GatewayError.from(error);
      },
    );
  }

  /** An answer in the federation's words. Looks at the bytes first: most answers need nothing. */
  #toClient(exchange: Exchange, member: MemberOptions, reply: Reply): Reply {
    const { message } = reply;
    if (message === undefined || (message.kind !== "result" && member.uris === "keep")) return reply;
    let changed: Message = withAdvertisedUris(message, member);
    if (message.kind !== "result") return changed === message ? reply : { ...reply, message: changed };
    const { states, uris } = this.#federation;
    if (member.uris === "keep")
      for (const uri of mentionedUris(message)) uris.mention(member.name, exchange.principal, uri);
    const { spans } = message.outline;
    if (taskSlots.some((slot) => (spans[slot] ?? -1) >= 0)) changed = withAdvertisedTasks(changed, member.name);
    if (inputSlots.some((slot) => (spans[slot] ?? -1) >= 0))
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
    for (const degraded of page.degraded) this.#federation.onDegraded(facts.method, degraded);
    if (place === undefined) this.#links.listed(exchange, facts, page.next === undefined ? page.entries : undefined);
    return { message: resultMessage(message.id, this.#formatPage(exchange, facts, page)) };
  }

  #formatPage(exchange: Exchange, facts: ListFacts, page: FilledPage): string {
    const { options, cursors } = this.#federation;
    const { entries, next, degraded, clashes, ttlMs, isPublic } = page;
    const cut = entries.filter(({ name, advertised }) => facts.named !== undefined && !advertised.endsWith(name));
    const isModern = exchange.era === "modern";
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
      formatEntries(facts, entries),
      ...(next === undefined ? [] : [`"nextCursor":${JSON.stringify(cursors.write(exchange, facts.method, next))}`]),
      ...(isModern ? [`"ttlMs":${ttlMs}`, `"cacheScope":"${isPublic && ttlMs > 0 ? "public" : "private"}"`] : []),
      ...(meta.length === 0 ? [] : [`"_meta":{${meta.join(",")}}`]),
    ];
    return `{${members.join(",")}}`;
  }
}

function formatEntries({ member }: ListFacts, entries: readonly CatalogueEntry[]): string {
  return `"${member}":[${entries.map(({ json }) => json).join(",")}]`;
}

const taskSlots = [
  slotOf("result.taskId"),
  slotOf("result.task"),
  slotOf("result._meta.io.modelcontextprotocol/related-task"),
];
const inputSlots = [slotOf("result.requestState"), slotOf("result.inputRequests")];

/** A request with the name as its member writes it. */
function toMember(message: RequestMessage, { name, subject }: UpstreamTarget): RequestMessage {
  if (name === subject) return message;
  switch (methodFacts(message.method)?.target) {
    case "tool":
    case "prompt":
      return withString(message, "params.name", name);
    case "task":
      return withString(message, "params.taskId", name);
    default:
      return message.method === "completion/complete" ? withReference(message, name) : message;
  }
}

/** What a server says about a name that it does not have (MCP, Tools, Prompts and Resources, "Error Handling"). */
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
