const digestLength = 8;

/** What a cut name ends in: `_` and a digest. */
export const cutTailLength = digestLength + 1;

const cutForm = /_[\da-z]{8}$/u;

/** Whether a name looks as if it had been cut. */
export function isCutForm(name: string): boolean {
  return cutForm.test(name);
}

/** Cuts a name to a length; a digest of what it stands for makes it unique. */
export function cutName(name: string, maxLength: number, digest: Buffer): string {
  const tail = digest.readBigUInt64BE().toString(36).padStart(13, "0").slice(-digestLength);
  // Half a surrogate pair is not valid Unicode, and no header can carry it.
  const kept = name.slice(0, maxLength - cutTailLength).replace(/[\ud800-\udbff]$/, "_");
  return `${kept}_${tail}`;
}
