import { once } from "node:events";
import { createWriteStream } from "node:fs";
import { rename, rm } from "node:fs/promises";
import { pipeline } from "node:stream/promises";

import type { FilterCondition, ExchangeRecord, Frame } from "../recorder/contract.ts";
import type { RecordReader } from "../recorder/store-contract.ts";
import { formatCaptureLine, writeCaptureFile } from "../recorder/replay/capture-file.ts";
import { formatHar } from "../recorder/replay/har.ts";
import { exitCodes } from "./exit-codes.ts";
import { createProgressBar } from "./progress-bar.ts";
import { openReader } from "./recordings.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";
import { packageVersion } from "./version.ts";

/** `headgate traffic export FILE [FILTER]`: a capture file, or a HAR file by its name. */
export async function trafficExport(
  file: string,
  { values, where }: TrafficRequest,
  io: TrafficIo,
): Promise<number> {
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
  await pipeline(
    formatHar(exchanges(), { name: "headgate", version: packageVersion() }),
    createWriteStream(file),
  );
  return done;
}

/** All exchanges that fit, the oldest first, page by page. */
async function* allExchanges(
  reader: RecordReader,
  where: FilterCondition | undefined,
): AsyncIterable<ExchangeRecord> {
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
