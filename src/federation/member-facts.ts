import { isDeepStrictEqual } from "node:util";

import type { MemberOptions } from "./names/member-options.ts";
import type { ServerFacts } from "./server-facts.ts";

/** Remembers what servers said about themselves, for the next process. */
export interface ServerFactsStore {
  /** Undefined if nothing is known of this server. */
  get(server: string): ServerFacts | undefined;
  set(server: string, facts: ServerFacts): void;
}

/** What members said about themselves, when they were last reached. */
export class MemberFacts {
  readonly #store: () => ServerFactsStore | undefined;
  readonly #serverOf: (member: string) => string;
  readonly #reached = new Map<string, ServerFacts>();
  /** Of an earlier process, by server: after a reload another one may have the name. */
  readonly #remembered = new Map<string, ServerFacts | undefined>();

  /** `serverOf` identifies the server of a member, wherever it is configured. */
  constructor(store: () => ServerFactsStore | undefined, serverOf: (member: string) => string) {
    this.#store = store;
    this.#serverOf = serverOf;
  }

  /** What a member said to this process. */
  get(member: string): ServerFacts | undefined {
    return this.#reached.get(member);
  }

  /** The same, or what it said to an earlier process: the server may have changed since. */
  lastKnown(member: string): ServerFacts | undefined {
    const reached = this.#reached.get(member);
    const store = this.#store();
    if (reached !== undefined || store === undefined) return reached;
    const server = this.#serverOf(member);
    if (!this.#remembered.has(server)) this.#remembered.set(server, store.get(server));
    return this.#remembered.get(server);
  }

  /** What is known of each of these members. */
  lastKnownOf(members: readonly Pick<MemberOptions, "name">[]): ReadonlyMap<string, ServerFacts> {
    return new Map(
      members.flatMap(({ name }) => {
        const facts = this.lastKnown(name);
        return facts === undefined ? [] : [[name, facts] as const];
      }),
    );
  }

  /** A member has answered a handshake. */
  set(member: string, facts: ServerFacts): void {
    const isNew = !isDeepStrictEqual(announcedIn(facts), announcedIn(this.lastKnown(member)));
    this.#reached.set(member, facts);
    if (isNew) this.#store()?.set(this.#serverOf(member), facts);
  }

  /** Another process agreed on this with a member, for a session that continues here. A handshake says more. */
  learn(member: string, facts: ServerFacts): void {
    if (this.#reached.has(member)) return;
    const instructions = facts.instructions ?? this.lastKnown(member)?.instructions;
    this.#reached.set(member, { ...facts, instructions });
  }

  /** The server of a member has been replaced. */
  forget(member: string): void {
    this.#reached.delete(member);
  }
}

function announcedIn(facts: ServerFacts | undefined) {
  return facts && { capabilities: facts.capabilities, instructions: facts.instructions };
}
