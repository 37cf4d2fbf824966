import { promisify } from "node:util";
import * as zlib from "node:zlib";

const maxDecodedBytes = 64 * 1024 * 1024;

interface DecodeOptions {
  readonly maxOutputLength: number;
  readonly finishFlush?: number;
}

interface Coding {
  readonly decode: (body: Buffer, options: DecodeOptions) => Promise<Buffer>;
  /** Whether part of a body that fails to decode can be read: a client may then read that part. */
  readonly hasBegun: (body: Buffer) => boolean | Promise<boolean>;
}

const startsWith =
  (...bytes: readonly number[]) =>
  (body: Buffer): boolean =>
    bytes.every((byte, at) => body[at] === byte);
const gunzip = promisify<Buffer, DecodeOptions, Buffer>(zlib.gunzip);
const inflate = promisify<Buffer, DecodeOptions, Buffer>(zlib.inflate);
const inflateRaw = promisify<Buffer, DecodeOptions, Buffer>(zlib.inflateRaw);
const brotli = promisify<Buffer, DecodeOptions, Buffer>(zlib.brotliDecompress);
const zstd = promisify<Buffer, DecodeOptions, Buffer>(zlib.zstdDecompress);

/** Whether some bytes of a body that is cut off can be decoded. */
async function decodesInPart(decode: Coding["decode"], body: Buffer, finishFlush: number): Promise<boolean> {
  try {
    return (await decode(body, { maxOutputLength: maxDecodedBytes, finishFlush })).length > 0;
  } catch (error) {
    return isTooLong(error);
  }
}

const gzip: Coding = { decode: gunzip, hasBegun: startsWith(0x1f, 0x8b) };
const codings: ReadonlyMap<string, Coding> = new Map([
  ["gzip", gzip],
  ["x-gzip", gzip],
  [
    "deflate",
    {
      // Browsers read the form without the header of zlib too.
      decode: (body, options) => (hasZlibHeader(body) ? inflate(body, options) : inflateRaw(body, options)),
      hasBegun: (body) => hasZlibHeader(body) || decodesInPart(inflateRaw, body, zlib.constants.Z_SYNC_FLUSH),
    },
  ],
  [
    "br",
    {
      decode: brotli,
      hasBegun: async (body) => decodesInPart(brotli, body, zlib.constants.BROTLI_OPERATION_FLUSH),
    },
  ],
  ["zstd", { decode: zstd, hasBegun: startsWith(0x28, 0xb5, 0x2f, 0xfd) }],
]);

function hasZlibHeader([first = 0, second = 0]: Buffer): boolean {
  return (first & 0x0f) === 8 && (first * 256 + second) % 31 === 0;
}

function isTooLong(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "ERR_BUFFER_TOO_LARGE";
}

/** More codings than any server applies. */
const maxCodings = 4;

/** A body without its codings, or why a client could read in it what the policy cannot. */
export type DecodedContent = { readonly body: Buffer | undefined } | { readonly problem: string };

/**
 * Takes the content codings off a body (PA-206). There is no body if it has no coding, an unknown one, or is not coded
 * although its header says so: the policy then sees it as the client would. A body that a client could read in part, or
 * that is too long to evaluate, is a problem.
 */
export async function decodeContent(
  body: Buffer,
  encodings: readonly string[] | undefined,
  maxBodyBytes: number,
): Promise<DecodedContent> {
  const names = (encodings ?? [])
    .flatMap((value) => value.split(","))
    .map((name) => name.trim().toLowerCase())
    .filter((name) => name !== "" && name !== "identity");
  const unknown = { body: undefined };
  if (names.length === 0 || body.length === 0 || !names.every((name) => codings.has(name))) return unknown;
  if (names.length > maxCodings) return { problem: `the body has more than ${maxCodings} content codings` };
  const maxOutputLength = maxBodyBytes === 0 ? maxDecodedBytes : Math.min(maxBodyBytes, maxDecodedBytes);
  let plain = body;
  // The one that was applied last is named last (RFC 9110, section 8.4).
  for (const name of names.toReversed()) {
    const coding = codings.get(name) ?? gzip;
    try {
      plain = await coding.decode(plain, { maxOutputLength });
    } catch (error) {
      if (isTooLong(error)) return { problem: `the decoded body is longer than ${maxOutputLength} bytes` };
      const isPartial = plain !== body || (await coding.hasBegun(plain));
      return isPartial ? { problem: `the body is not valid ${name}` } : unknown;
    }
  }
  return { body: plain };
}
