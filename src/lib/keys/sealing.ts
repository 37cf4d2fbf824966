import { createCipheriv, createDecipheriv, createSecretKey, hkdfSync, type KeyObject, randomBytes } from "node:crypto";

/** What a sealed string is for. Each purpose has its own keys, so a string sealed for one never opens as another. */
export type SealPurpose = keyof typeof tags;

/** The first part of a sealed text, with the number of its format. */
const tags = { session: "hs1", cursor: "hc1", requestState: "hr1", peer: "hp1" } as const;

/** Seals and opens texts for one purpose: what a client carries and must neither read nor change. */
export interface Seal {
  /**
   * Encrypts and authenticates bytes (AES-256-GCM) as visible ASCII. The same context must be given to open them: it
   * names what the text is bound to but does not contain, such as a route.
   */
  seal(content: Uint8Array, context?: string): string;
  /** The bytes, or undefined if the text was changed, cut, or sealed with an unknown key, purpose or context. */
  open(text: string, context?: string): Buffer | undefined;
}

/** A seal for each purpose. */
export type Seals = Readonly<Record<SealPurpose, Seal>>;

const cipher = "aes-256-gcm";
const keyBytes = 32;
const nonceBytes = 12;
const tagBytes = 16;
const keyIdBytes = 6;

/** The shortest secret that a key is derived from. There is no slow derivation, so it must not be guessable. */
export const minSealSecretBytes = 32;

/**
 * Creates seals from secrets: the first one seals, all of them open, so that a new secret is put in front of the old one
 * until everything sealed with that has expired. Nonces are random, which is safe for 2^32 texts of a purpose and secret.
 */
export function createSeals(secrets: readonly Uint8Array[]): Seals {
  return {
    session: createSeal("session", secrets),
    cursor: createSeal("cursor", secrets),
    requestState: createSeal("requestState", secrets),
    peer: createSeal("peer", secrets),
  };
}

/** Creates seals that only this process can open. */
export function createProcessSeals(): Seals {
  return createSeals([randomBytes(keyBytes)]);
}

interface SealKey {
  /** The tag of the purpose and the id of the key, up to the last dot. */
  readonly head: string;
  readonly key: KeyObject;
}

function createSeal(purpose: SealPurpose, secrets: readonly Uint8Array[]): Seal {
  const keys = secrets.map((secret) => deriveKey(purpose, secret));
  const [first] = keys;
  if (first === undefined) throw new TypeError("sealing needs at least one secret");

  return {
    seal: (content, context = "") => {
      const nonce = randomBytes(nonceBytes);
      const encryption = createCipheriv(cipher, first.key, nonce, { authTagLength: tagBytes });
      encryption.setAAD(Buffer.from(first.head + context));
      const parts = [nonce, encryption.update(content), encryption.final(), encryption.getAuthTag()];
      return first.head + Buffer.concat(parts).toString("base64url");
    },
    open: (text, context = "") => {
      const used = keys.find(({ head }) => text.startsWith(head));
      if (used === undefined) return undefined;
      const body = text.slice(used.head.length);
      const sealed = Buffer.from(body, "base64url");
      // Decoding is lenient; one content has one text only.
      if (sealed.length < nonceBytes + tagBytes || sealed.toString("base64url") !== body) return undefined;
      const end = sealed.length - tagBytes;
      const nonce = sealed.subarray(0, nonceBytes);
      const decryption = createDecipheriv(cipher, used.key, nonce, { authTagLength: tagBytes });
      decryption.setAAD(Buffer.from(used.head + context));
      decryption.setAuthTag(sealed.subarray(end));
      const content = decryption.update(sealed.subarray(nonceBytes, end));
      try {
        return Buffer.concat([content, decryption.final()]);
      } catch {
        // The only error of final() is a tag that does not match.
        return undefined;
      }
    },
  };
}

/** Derives the key of a purpose and its public id (HKDF-SHA256, RFC 5869). */
function deriveKey(purpose: SealPurpose, secret: Uint8Array): SealKey {
  if (secret.length < minSealSecretBytes)
    throw new TypeError(`a secret for sealing has at least ${minSealSecretBytes} bytes, this one ${secret.length}`);
  const derive = (what: string, length: number): Buffer =>
    Buffer.from(hkdfSync("sha256", secret, "", `headgate ${what} ${purpose}`, length));
  const id = derive("key id", keyIdBytes).toString("base64url");
  return { head: `${tags[purpose]}.${id}.`, key: createSecretKey(derive("key", keyBytes)) };
}
