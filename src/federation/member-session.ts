import type { Exchange } from "../core/exchange.ts";
import { GatewayError } from "../errors.ts";
import { idFrom, replaceIds } from "../protocol/message.ts";
import { type LinkEvents, relayFindings, type ResumedSession, type UpstreamLink } from "../transports/transport.ts";
import type { KeptMember } from "./kept-members.ts";
import type { MemberOptions } from "./names/member-options.ts";
import { type AskDeps, askOver, createOwnExchange, createOwnNotification } from "./member-requests.ts";
import { parseServerFacts, type ServerFacts } from "./server-facts.ts";

export interface MemberSessionDeps {
  readonly member: MemberOptions;
  readonly ask: AskDeps;
  /** Opens a link to the member, for one legacy session. */
  readonly open: (events: LinkEvents) => UpstreamLink;
  readonly events: Pick<LinkEvents, "message" | "malformed" | "dropped" | "error">;
  /** The handshake has succeeded: for the first time, or again. */
  readonly onReady: (facts: ServerFacts) => void;
  /** The member has gone; the next request opens a new session with it. */
  readonly onGone: (error: GatewayError) => void;
}

/** The session of one client with one member: opened with the client's handshake, and reopened after it has ended. */
export class MemberSession {
  readonly #deps: MemberSessionDeps;
  #handshake: Exchange | undefined;
  #opening: Promise<UpstreamLink> | undefined;
  #ready: UpstreamLink | undefined;
  #link: UpstreamLink | undefined;
  #isInitialized = false;
  #isListening = false;
  #isClosed = false;

  constructor(deps: MemberSessionDeps) {
    this.#deps = deps;
  }

  /** The link, while the session is open. */
  get link(): UpstreamLink | undefined {
    return this.#ready;
  }

  /** Whether the last link of this session could pause its server. */
  get hasBackpressure(): boolean {
    return this.#link?.hasBackpressure ?? false;
  }

  /** Opens the session with the client's `initialize`. */
  start(handshake: Exchange): Promise<UpstreamLink> {
    this.#handshake = handshake;
    return this.ready();
  }

  /** The client is ready: the server may send requests from now on. */
  async initialized(): Promise<void> {
    this.#isInitialized = true;
    const { link } = this;
    if (link !== undefined) await this.#tellInitialized(link);
  }

  async listen(): Promise<void> {
    this.#isListening = true;
    await this.link?.listen();
  }

  /** The link of the open session; opens it if needed. */
  ready(): Promise<UpstreamLink> {
    if (this.#isClosed)
      return Promise.reject(new GatewayError("upstream_unreachable", "the connection has been closed"));
    this.#opening ??= this.#open().catch((error: unknown) => {
      // The next request tries again.
      this.#opening = undefined;
      throw GatewayError.from(error);
    });
    return this.#opening;
  }

  /**
   * Continues a session that the member opened for another process. Without one, or if that fails, the next request
   * starts a new session.
   */
  resume({ initialize, initialized }: ResumedSession, kept: KeptMember | undefined): boolean {
    this.#handshake = initialize;
    this.#isInitialized = true;
    if (kept === undefined) return false;
    const link: UpstreamLink = this.#deps.open(this.#eventsOf(() => link));
    const { session, revision } = kept;
    if (link.resume?.({ session, revision, initialize, initialized }) !== true) {
      void link.close("its session begins anew");
      return false;
    }
    this.#link = link;
    this.#ready = link.resolvedLink ?? link;
    this.#opening = Promise.resolve(this.#ready);
    return true;
  }

  async close(reason: string, isKept?: boolean): Promise<void> {
    this.#isClosed = true;
    await this.#link?.close(reason, isKept);
  }

  async #open(): Promise<UpstreamLink> {
    const handshake = this.#handshake;
    if (handshake?.message.kind !== "request")
      throw new GatewayError("invalid_message", "the session must begin with initialize");
    const { open, ask, member, onReady } = this.#deps;
    const link: UpstreamLink = open(this.#eventsOf(() => link));
    this.#link = link;
    try {
      const message = replaceIds(handshake.message, [{ name: "id", id: idFrom("headgate-initialize") }]);
      const { message: answer } = await askOver(link, member.name, createOwnExchange(handshake, message), ask);
      const facts = parseServerFacts(answer);
      const current = link.resolvedLink ?? link;
      this.#ready = current;
      if (this.#isInitialized) await this.#tellInitialized(current);
      if (this.#isListening) void current.listen();
      onReady(facts);
      return current;
    } catch (error) {
      if (this.#link === link) this.#link = undefined;
      this.#ready = undefined;
      await link.close("the handshake failed");
      throw error;
    }
  }

  async #tellInitialized(link: UpstreamLink): Promise<void> {
    if (this.#handshake === undefined) return;
    await link.send(createOwnExchange(this.#handshake, createOwnNotification("notifications/initialized")));
  }

  #eventsOf(link: () => UpstreamLink): LinkEvents {
    const { events, onGone } = this.#deps;
    return {
      message: (message, related, context) => events.message(message, related, context),
      ...relayFindings(events),
      closed: (error) => {
        if (this.#link !== link()) return;
        this.#link = undefined;
        this.#ready = undefined;
        this.#opening = undefined;
        if (!this.#isClosed) onGone(error);
      },
    };
  }
}
