import { createHmac } from "node:crypto";

const form = /\[redacted:[0-9a-f]{12}\]/u;
const alone = /^\[redacted:[0-9a-f]{12}\]$/u;

/** Makes what stands where a secret stood: the same for the same secret, and no way back to it without the key. */
export type Placeholder = (secret: string) => string;

/** Placeholders of one capture; its key is not kept anywhere, so nobody can try out what a secret might have been. */
export function createPlaceholder(key: Uint8Array): Placeholder {
  return (secret) => `[redacted:${createHmac("sha256", key).update(secret).digest("hex").slice(0, 12)}]`;
}

/** Whether something was redacted in a text. */
export function hasPlaceholder(text: string): boolean {
  return form.test(text);
}

/** Whether a text is a placeholder and nothing else. */
export function isPlaceholder(text: string): boolean {
  return alone.test(text);
}
