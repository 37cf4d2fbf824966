/** An image that a server sent. */
export interface SentImage {
  readonly type: string;
  readonly data: string;
}

/** Formats that browsers draw and that hold no code. */
const drawn: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
const maxLength = 14_000_000;

/** The images of a result or another value, wherever they stand in it. */
export function imagesOf(value: unknown): readonly SentImage[] {
  if (typeof value !== "object" || value === null) return [];
  const { mimeType, data, blob } = value as Readonly<Record<string, unknown>>;
  const text = data ?? blob;
  if (typeof mimeType === "string" && drawn.has(mimeType) && typeof text === "string" && text.length < maxLength)
    return [{ type: mimeType, data: text }];
  return Object.values(value).flatMap(imagesOf);
}
