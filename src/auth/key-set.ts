import type { createLocalJWKSet, CryptoKey, FlattenedJWSInput, JSONWebKeySet, JWSHeaderParameters } from "jose";
import { GatewayError } from "../errors.ts";
import { jose } from "../lib/lazy-modules.ts";
import type { Clock } from "../lib/clock.ts";
import { asObject } from "../lib/is-object.ts";
import type { HttpClient } from "./http-client.ts";

/** The published signing keys of an issuer (RFC 7517), kept up to date. */
export type KeySet = ReturnType<typeof createKeySet>;

export interface KeySetOptions {
  /** The URL of the keys; asked before every fetch. */
  readonly locate: () => Promise<string>;
  readonly ask: HttpClient;
  readonly clock: Pick<Clock, "now">;
  /** Called for every failed fetch. */
  readonly onError?: (error: GatewayError) => void;
}

/** Age at which keys are fetched again. */
const freshMs = 10 * 60_000;
/** Maximum age while the issuer cannot be reached. */
const staleMs = 60 * 60_000;
/** Time between fetches for unknown keys, so that forged tokens cannot cause one each. */
const cooldownMs = 30_000;

interface Keys {
  readonly find: ReturnType<typeof createLocalJWKSet>;
  readonly texts: ReadonlySet<string>;
  readonly fetchedAt: number;
}

/** Creates a key set; the first fetch happens with the first token. */
export function createKeySet(options: KeySetOptions) {
  const { clock, onError } = options;
  let keys: Keys | undefined;
  let generation = 0;
  let fetching: Promise<Keys> | undefined;
  let lastTry = Number.NEGATIVE_INFINITY;
  let failure: GatewayError | undefined;

  function fetchKeys(): Promise<Keys> {
    lastTry = clock.now();
    fetching ??= load(options)
      .then((next) => {
        if (keys !== undefined && !keys.texts.isSubsetOf(next.texts)) generation++;
        keys = next;
        failure = undefined;
        return next;
      })
      .catch((error: unknown) => {
        failure = GatewayError.from(error);
        onError?.(failure);
        throw failure;
      })
      .finally(() => {
        fetching = undefined;
      });
    return fetching;
  }

  const mayTry = (): boolean => fetching !== undefined || clock.now() - lastTry >= cooldownMs;

  /** Fresh keys, or old ones while no others can be fetched. */
  async function current(): Promise<Keys> {
    const age = keys === undefined ? Number.POSITIVE_INFINITY : clock.now() - keys.fetchedAt;
    if (keys !== undefined && age < freshMs) return keys;
    if (keys !== undefined && age < staleMs) {
      if (mayTry()) fetchKeys().catch(ignore);
      return keys;
    }
    // After a failure the issuer is not asked again for a while.
    if (failure !== undefined && !mayTry()) throw failure;
    return fetchKeys();
  }

  return {
    /**
     * Changes when a key was withdrawn, or when the keys are too old to know: cached tokens must then be verified again.
     * Refreshes old keys in the background.
     */
    generation: (): number => {
      if (keys === undefined) return generation;
      const age = clock.now() - keys.fetchedAt;
      if (age >= staleMs) {
        keys = undefined;
        generation++;
      } else if (age >= freshMs) current().catch(ignore);
      return generation;
    },
    /** The key for a token's header. Rejects with a GatewayError if no keys are available. */
    find: async (header: JWSHeaderParameters, token: FlattenedJWSInput): Promise<CryptoKey> => {
      const found = await current();
      try {
        return await found.find(header, token);
      } catch (error) {
        // The key may have been added since (rotation).
        if (!(error instanceof jose().errors.JWKSNoMatchingKey) || !mayTry()) throw error;
        return (await fetchKeys()).find(header, token);
      }
    },
  };
}

/** `fetchKeys` has reported the failure. */
function ignore(): void {}

async function load({ locate, ask, clock }: KeySetOptions): Promise<Keys> {
  const url = await locate();
  const { status, json } = await ask({ url, headers: { accept: "application/jwk-set+json, application/json" } });
  const list: unknown = asObject(json)?.["keys"];
  if (status !== 200 || !Array.isArray(list)) {
    throw new GatewayError("upstream_unreachable", `${url} answered ${status} without a key set`);
  }
  return {
    // The list was checked above; the library checks every key that it uses.
    find: jose().createLocalJWKSet(json as JSONWebKeySet),
    texts: new Set(list.map((key) => JSON.stringify(key))),
    fetchedAt: clock.now(),
  };
}
