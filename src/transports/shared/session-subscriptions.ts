/** A session with more subscriptions than this receives every update. */
const maxUris = 1000;

/** The resources that one session has subscribed to. */
export class SessionSubscriptions {
  readonly #uris = new Set<string>();
  #isEverything = false;

  get isEmpty(): boolean {
    return !this.#isEverything && this.#uris.size === 0;
  }

  add(uri: string): void {
    if (this.#uris.size < maxUris) this.#uris.add(uri);
    else this.#isEverything = true;
  }

  delete(uri: string): void {
    this.#uris.delete(uri);
  }

  has(uri: string): boolean {
    return this.#isEverything || this.#uris.has(uri);
  }

  /** Whether an update is for this session; the updated resource may be a part of a subscribed one (MCP, Resources). */
  covers(uri: string): boolean {
    if (this.has(uri)) return true;
    for (const own of this.#uris) if (uri.startsWith(own)) return true;
    return false;
  }
}

/** The sessions that an update is for; if it matches no subscription, all sessions that have one. */
export function subscribersOf<Session extends { readonly subscriptions: SessionSubscriptions }>(
  sessions: readonly Session[],
  uri: string | undefined,
): readonly Session[] {
  const subscribers = sessions.filter(({ subscriptions }) => !subscriptions.isEmpty);
  const matching = uri === undefined ? [] : subscribers.filter(({ subscriptions }) => subscriptions.covers(uri));
  return matching.length > 0 ? matching : subscribers;
}
