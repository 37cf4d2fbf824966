import { promisify } from "node:util";
import { brotliDecompress, gunzip, inflate, zstdDecompress } from "node:zlib";

/** Most bytes that a compressed body may grow to; a larger one is shown to the policy as it came. */
const maxDecodedBytes = 64 * 1024 * 1024;

type Decode = (body: Buffer, options: { readonly maxOutputLength: number }) => Promise<Buffer>;

const decoders: Readonly<Record<string, Decode>> = {
  gzip: promisify(gunzip),
  "x-gzip": promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
  zstd: promisify(zstdDecompress),
};

/**
 * A body without its content coding, for policies that could not read it otherwise (PA-206). Undefined when it has none,
 * one that is not known, several, or when it is broken or grows too large.
 */
export async function decodeContent(
  body: Buffer,
  encodings: readonly string[] | undefined,
): Promise<Buffer | undefined> {
  const coding = encodings?.join(",").trim().toLowerCase() ?? "";
  const decode = Object.hasOwn(decoders, coding) ? decoders[coding] : undefined;
  if (decode === undefined || body.length === 0) return undefined;
  try {
    return await decode(body, { maxOutputLength: maxDecodedBytes });
  } catch {
    // A broken body is the upstream's affair: the policy sees it as the client would.
    return undefined;
  }
}
