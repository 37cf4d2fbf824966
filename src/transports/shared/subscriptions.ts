/** More than this many are not kept apart any more: whoever has them hears of every update. */
const mostUris = 1000;

/** The resources that one session wants to hear of. */
export class SessionSubscriptions {
  readonly #uris = new Set<string>();
  #isEverything = false;

  get isEmpty(): boolean {
    return !this.#isEverything && this.#uris.size === 0;
  }

  add(uri: string): void {
    if (this.#uris.size < mostUris) this.#uris.add(uri);
    else this.#isEverything = true;
  }

  delete(uri: string): void {
    this.#uris.delete(uri);
  }

  has(uri: string): boolean {
    return this.#isEverything || this.#uris.has(uri);
  }

  /** Whether an update concerns it; what was updated may be a part of what was subscribed to (MCP, Resources). */
  covers(uri: string): boolean {
    if (this.has(uri)) return true;
    for (const own of this.#uris) if (uri.startsWith(own)) return true;
    return false;
  }
}

/** Whom an update concerns; where it fits no subscription, everybody who has one, because it may be meant for any. */
export function subscribersOf<Reader extends { readonly subscriptions: SessionSubscriptions }>(
  readers: readonly Reader[],
  uri: string | undefined,
): readonly Reader[] {
  const subscribers = readers.filter(({ subscriptions }) => !subscriptions.isEmpty);
  const concerned =
    uri === undefined ? [] : subscribers.filter(({ subscriptions }) => subscriptions.covers(uri));
  return concerned.length > 0 ? concerned : subscribers;
}
