import { once } from "node:events";
import { createPrivateFile } from "../../lib/keys/private-file.ts";
import { mkdir, rename, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { dirname } from "node:path";

import type { ExchangeRecord, Frame } from "../../recorder/contract.ts";
import type { RecordReader } from "../../recorder/store/store-contract.ts";
import { formatCaptureLine, readCaptureFile, writeCaptureFile } from "../../recorder/store/capture-file.ts";
import { formatHar } from "../../recorder/replay/har.ts";
import { exitCodes } from "../commands.ts";
import { createProgressBar } from "../text-layout.ts";
import { detectStoreKind, openReader, openStore, readLines, resolveStore } from "./recordings.ts";
import type { TrafficRequest } from "./traffic.ts";
import { type CommandIo, packageVersion } from "../io.ts";
import { parseSize, parseTime } from "../../recorder/filter/terms.ts";
import { UsageError } from "../define-command.ts";
import { withoutUndefined } from "../../lib/without-undefined.ts";
import { formatBytes } from "./format.ts";

/** Endings of files that people would open with a program that cannot read a capture. */
const otherFormats = /\.(?:zip|tgz|7z|bz2|xz|zst|br|sqlite3?|db|csv|tsv|parquet|pcap|pcapng|ya?ml|xml|html?)$/iu;

/** `headgate traffic export FILE [FILTER]`: writes a capture file, or a HAR file if the name ends in `.har`. */
export async function exportTraffic({ values, name: file, filter }: TrafficRequest, io: CommandIo): Promise<number> {
  if (otherFormats.test(file))
    throw new UsageError(`\`${file}\` has the ending of another format; expected .ndjson, .ndjson.gz or .har`);
  await using reader = await openReader(values, io);
  using bar = createProgressBar("exporting", io);
  let count = 0;
  const lines = async function* () {
    const query = {
      ...filter,
      ...(values.operations === true ? { wholeOperations: true } : {}),
      onProgress: bar.show,
    };
    for await (const line of reader.export(query)) {
      if (line.type === "end") count += line.exchanges;
      yield line;
    }
  };
  if (file === "-") {
    const { stdout } = io;
    for await (const line of lines()) {
      const text = formatCaptureLine(line);
      if (stdout === undefined) io.out(text);
      // Backpressure: a store may be larger than memory.
      else if (!stdout.write(text)) await once(stdout, "drain");
    }
    return exitCodes.ok.code;
  }
  // Renamed when complete, so that there is never half a file.
  const unfinished = `${file}.${process.pid}.part${file.endsWith(".gz") ? ".gz" : ""}`;
  try {
    if (file.endsWith(".har")) count = await writeHar(unfinished, reader, filter, bar.show);
    else await writeCaptureFile(unfinished, lines());
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
  io.err(`exported ${count} exchanges to ${file}\n`);
  return exitCodes.ok.code;
}

async function writeHar(
  file: string,
  reader: RecordReader,
  filter: TrafficRequest["filter"],
  onProgress: (done: number, total: number | undefined) => void,
): Promise<number> {
  let done = 0;
  const exchanges = async function* (): AsyncIterable<{ record: ExchangeRecord; frames: readonly Frame[] }> {
    for await (const record of allExchanges(reader, filter)) {
      yield { record, frames: await reader.frames(record.capture, record.id) };
      onProgress(++done, undefined);
    }
  };
  await pipeline(
    formatHar(exchanges(), { name: "headgate", version: packageVersion() }),
    await createPrivateFile(file),
  );
  return done;
}

/** All matching exchanges, oldest first, read page by page. */
async function* allExchanges(reader: RecordReader, filter: TrafficRequest["filter"]): AsyncIterable<ExchangeRecord> {
  let cursor: string | undefined;
  do {
    const query = { ...filter, ...withoutUndefined({ cursor }), order: "oldest", limit: 1000 } as const;
    const page = await reader.exchanges(query);
    yield* page.exchanges;
    cursor = page.next;
  } while (cursor !== undefined);
}

/** `headgate traffic import FILE`: adds a capture to a store, which is created if needed. */
export async function importTraffic({ values, name: file }: TrafficRequest, io: CommandIo): Promise<number> {
  const warnings: string[] = [];
  const kind = await detectStoreKind(file);
  const size = kind === "capture" ? (await stat(file)).size : undefined;
  const target = await resolveStore(values, io);
  if (!target.includes("://")) await mkdir(dirname(target), { recursive: true });
  using bar = createProgressBar("importing", io);
  await using store = await openStore({ store: target }, io, { create: true });
  const lines =
    kind === "capture"
      ? readCaptureFile(file, {
          onWarning: (warning) => warnings.push(warning),
          onBytes: (bytes) => {
            bar.show(bytes, size);
          },
        })
      : readLines(file, io);
  const imported = await store.import(lines);
  while ((await store.index(5000)) > 0);
  const all = { ...imported, warnings: [...new Set([...warnings, ...imported.warnings])] };
  if (values.json === true) io.out(`${JSON.stringify(all)}\n`);
  else {
    for (const warning of all.warnings) io.err(`headgate traffic: ${warning}\n`);
    const known = all.known === 0 ? "" : ` (${all.known} were there already)`;
    io.out(`imported ${all.frames} frames of ${all.captures} captures into ${store.location}${known}\n`);
  }
  return exitCodes.ok.code;
}

/** `headgate traffic prune`: removes old exchanges, all of them or those that match a filter. */
export async function pruneTraffic({ values, filter }: TrafficRequest, io: CommandIo): Promise<number> {
  const before = values.before === undefined ? undefined : parseTime(values.before, Date.now());
  const maxBytes = values["max-size"] === undefined ? undefined : parseSize(values["max-size"]);
  if (values.before !== undefined && before === undefined)
    throw new UsageError("--before takes a time such as 7d or 2026-11-01");
  if (values["max-size"] !== undefined && maxBytes === undefined)
    throw new UsageError("--max-size takes a size such as 500MB");
  if (before === undefined && maxBytes === undefined)
    throw new UsageError("prune needs --before TIME or --max-size SIZE; --before 0s removes everything that matches");
  await using store = await openStore(values, io);
  using bar = createProgressBar("pruning", io);
  const pruned = await store.prune({ ...withoutUndefined({ before, maxBytes }), ...filter }, bar.show);
  if (values.json === true) io.out(`${JSON.stringify(pruned)}\n`);
  else {
    const { exchanges, frames, bytes } = pruned;
    io.out(`removed ${exchanges} exchanges with ${frames} frames, ${formatBytes(bytes)}\n`);
  }
  return exitCodes.ok.code;
}
