import {
  createLocalJWKSet,
  type CryptoKey,
  errors,
  type FlattenedJWSInput,
  type JSONWebKeySet,
  type JWSHeaderParameters,
} from "jose";
import { GatewayError } from "../errors.ts";
import type { Clock } from "../core/exchange.ts";
import { asObject, type HttpClient } from "./http-client.ts";

/** The keys with which an issuer signs, as it publishes them (RFC 7517), kept up to date. */
export interface KeySet {
  /**
   * A number that changes when a key was withdrawn: what was verified before has to be verified again. Asking for it
   * also has old keys fetched anew, without waiting for them.
   */
  generation(): number;
  /** The key for a token's header. Rejects with a GatewayError where no keys can be had. */
  readonly find: (header: JWSHeaderParameters, token: FlattenedJWSInput) => Promise<CryptoKey>;
}

export interface KeySetOptions {
  /** Where the keys are; asked before every fetch, because that may move too. */
  readonly locate: () => Promise<string>;
  readonly ask: HttpClient;
  readonly clock: Pick<Clock, "now">;
  /** How old keys may get before they are fetched anew; 10 minutes unless given. */
  readonly freshMs?: number;
  /** How old they may get while the issuer cannot be reached; an hour unless given. */
  readonly staleMs?: number;
  /** How long unknown keys lead to no further fetch, so that forged tokens cannot cause one each; 30 s unless given. */
  readonly cooldownMs?: number;
  /** Told of fetches that failed. */
  readonly onTrouble?: (error: GatewayError) => void;
}

interface Keys {
  readonly find: ReturnType<typeof createLocalJWKSet>;
  readonly texts: ReadonlySet<string>;
  readonly fetchedAt: number;
}

/** Makes a key set; nothing is fetched before the first token comes. */
export function createKeySet(options: KeySetOptions): KeySet {
  const { clock, freshMs = 10 * 60_000, staleMs = 60 * 60_000, cooldownMs = 30_000, onTrouble } = options;
  let keys: Keys | undefined;
  let generation = 0;
  let fetching: Promise<Keys> | undefined;
  let lastTry = Number.NEGATIVE_INFINITY;
  let trouble: GatewayError | undefined;

  function fetchKeys(): Promise<Keys> {
    lastTry = clock.now();
    fetching ??= load(options)
      .then((next) => {
        if (keys !== undefined && !keys.texts.isSubsetOf(next.texts)) generation++;
        keys = next;
        trouble = undefined;
        return next;
      })
      .catch((error: unknown) => {
        trouble = GatewayError.from(error);
        onTrouble?.(trouble);
        throw trouble;
      })
      .finally(() => {
        fetching = undefined;
      });
    return fetching;
  }

  const mayTry = (): boolean => fetching !== undefined || clock.now() - lastTry >= cooldownMs;

  /** Keys that can be used: fresh ones, or old ones for as long as there are no others. */
  async function current(): Promise<Keys> {
    const age = keys === undefined ? Number.POSITIVE_INFINITY : clock.now() - keys.fetchedAt;
    if (keys !== undefined && age < freshMs) return keys;
    if (keys !== undefined && age < staleMs) {
      if (mayTry()) fetchKeys().catch(known);
      return keys;
    }
    // An issuer that has just failed is left alone for a moment; nothing can be verified meanwhile.
    if (trouble !== undefined && !mayTry()) throw trouble;
    return fetchKeys();
  }

  return {
    generation: () => {
      if (keys !== undefined && clock.now() - keys.fetchedAt >= freshMs) current().catch(known);
      return generation;
    },
    find: async (header, token) => {
      const found = await current();
      try {
        return await found.find(header, token);
      } catch (error) {
        // A key that is not there may have been added since (rotation).
        if (!(error instanceof errors.JWKSNoMatchingKey) || !mayTry()) throw error;
        return (await fetchKeys()).find(header, token);
      }
    },
  };
}

/** The failure has been reported where it happened. */
function known(): void {}

async function load({ locate, ask, clock }: KeySetOptions): Promise<Keys> {
  const url = await locate();
  const { status, json } = await ask({
    url,
    headers: { accept: "application/jwk-set+json, application/json" },
  });
  const list: unknown = asObject(json)?.["keys"];
  if (status !== 200 || !Array.isArray(list)) {
    throw new GatewayError("upstream_unreachable", `${url} answered ${status} without a key set`);
  }
  return {
    // Checked just above as far as the type goes; the library checks every key that it uses.
    find: createLocalJWKSet(json as JSONWebKeySet),
    texts: new Set(list.map((key) => JSON.stringify(key))),
    fetchedAt: clock.now(),
  };
}
