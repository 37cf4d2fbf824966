import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { mkdir, rename, rm, stat } from "node:fs/promises";
import { pipeline } from "node:stream/promises";
import { dirname } from "node:path";

import type { ExchangeRecord, FilterCondition, Frame } from "../../recorder/contract.ts";
import type { RecordReader } from "../../recorder/store/store-contract.ts";
import { formatCaptureLine, readCaptureFile, writeCaptureFile } from "../../recorder/store/capture-file.ts";
import { formatHar } from "../../recorder/replay/har.ts";
import { exitCodes } from "../commands.ts";
import { createProgressBar } from "../text-layout.ts";
import { detectStoreKind, openReader, openStore, readLines, resolveStore } from "./recordings.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";
import { packageVersion } from "../io.ts";
import { parseSize, parseTime } from "../../recorder/filter/terms.ts";
import { usageError } from "../help.ts";
import { formatBytes } from "./format.ts";

/** `headgate traffic export FILE [FILTER]`: a capture file, or a HAR file by its name. */
export async function trafficExport(file: string, { values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  await using reader = await openReader(values, io);
  using bar = createProgressBar("exporting", io);
  let count = 0;
  const lines = async function* () {
    const query = {
      ...(where === undefined ? {} : { where }),
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
      // Whoever reads it sets the pace: a store may be larger than the memory.
      else if (!stdout.write(text)) await once(stdout, "drain");
    }
    return exitCodes.ok.code;
  }
  // Nobody finds half a file under the name: it gets that when it is whole.
  const unfinished = `${file}.${process.pid}.part${file.endsWith(".gz") ? ".gz" : ""}`;
  try {
    if (file.endsWith(".har")) count = await writeHar(unfinished, reader, where, bar.show);
    else await writeCaptureFile(unfinished, lines());
    await rename(unfinished, file);
  } finally {
    await rm(unfinished, { force: true });
  }
  io.err(`${count} exchanges are in ${file}\n`);
  return exitCodes.ok.code;
}

async function writeHar(
  file: string,
  reader: RecordReader,
  where: FilterCondition | undefined,
  onProgress: (done: number, total: number | undefined) => void,
): Promise<number> {
  let done = 0;
  const exchanges = async function* (): AsyncIterable<{ record: ExchangeRecord; frames: readonly Frame[] }> {
    for await (const record of allExchanges(reader, where)) {
      yield { record, frames: await reader.frames(record.capture, record.id) };
      onProgress(++done, undefined);
    }
  };
  await pipeline(formatHar(exchanges(), { name: "headgate", version: packageVersion() }), createWriteStream(file));
  return done;
}

/** All exchanges that fit, the oldest first, page by page. */
async function* allExchanges(reader: RecordReader, where: FilterCondition | undefined): AsyncIterable<ExchangeRecord> {
  let cursor: string | undefined;
  do {
    const page = await reader.exchanges({
      ...(where === undefined ? {} : { where }),
      ...(cursor === undefined ? {} : { cursor }),
      order: "oldest",
      limit: 1000,
    });
    yield* page.exchanges;
    cursor = page.next;
  } while (cursor !== undefined);
}

/** `headgate traffic import FILE`: takes a capture into a store, which is made where there is none. */
export async function trafficImport(file: string, { values }: TrafficRequest, io: TrafficIo): Promise<number> {
  const warnings: string[] = [];
  const kind = await detectStoreKind(file);
  const size = kind === "capture" ? (await stat(file)).size : undefined;
  const place = await resolveStore(values, io);
  if (!place.includes("://")) await mkdir(dirname(place), { recursive: true });
  using bar = createProgressBar("importing", io);
  await using store = await openStore({ store: place }, io, true);
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
    const known = all.known === 0 ? "" : `, ${all.known} frames were there before`;
    io.out(`${all.frames} frames of ${all.captures} captures are now in ${store.location}${known}\n`);
  }
  return exitCodes.ok.code;
}

/** `headgate traffic prune`: takes the oldest recordings out, or those that fit a filter. */
export async function trafficPrune({ values, where }: TrafficRequest, io: TrafficIo): Promise<number> {
  const before = values.before === undefined ? undefined : parseTime(values.before, Date.now());
  const maxBytes = values["max-size"] === undefined ? undefined : parseSize(values["max-size"]);
  const problem =
    values.before !== undefined && before === undefined
      ? "--before takes a time such as 7d or 2026-11-01"
      : values["max-size"] !== undefined && maxBytes === undefined
        ? "--max-size takes a size such as 500MB"
        : before === undefined && maxBytes === undefined
          ? "prune needs --before TIME or --max-size SIZE; --before 0s takes out all that fits the filter"
          : undefined;
  if (problem !== undefined) {
    io.err(usageError("traffic", problem));
    return exitCodes.usage.code;
  }
  await using store = await openStore(values, io, false);
  using bar = createProgressBar("pruning", io);
  const rules = {
    ...(before === undefined ? {} : { before }),
    ...(maxBytes === undefined ? {} : { maxBytes }),
    ...(where === undefined ? {} : { where }),
  };
  const pruned = await store.prune(rules, bar.show);
  if (values.json === true) io.out(`${JSON.stringify(pruned)}\n`);
  else {
    const { exchanges, frames, bytes } = pruned;
    io.out(`${exchanges} exchanges with ${frames} frames are gone, ${formatBytes(bytes)}\n`);
  }
  return exitCodes.ok.code;
}
