import { decodeString } from "./json/read.ts";
import { methodNames } from "./methods.ts";

const byLength: { readonly name: string; readonly bytes: Buffer }[][] = [];
for (const name of methodNames) (byLength[name.length] ??= []).push({ name, bytes: Buffer.from(name) });

/** The method name of the JSON string between two offsets; known names are not decoded anew for every message. */
export function methodNameAt(bytes: Buffer, start: number, end: number): string {
  const candidates = byLength[end - start - 2];
  if (candidates !== undefined) {
    for (const candidate of candidates)
      if (standsAt(candidate.bytes, bytes, start + 1)) return candidate.name;
  }
  return decodeString(bytes, start, end);
}

function standsAt(known: Buffer, bytes: Buffer, at: number): boolean {
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[at + i]) return false;
  return true;
}
