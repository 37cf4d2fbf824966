import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

import { readCaptureFile } from "../recorder/replay/capture-file.ts";
import { exitCodes } from "./exit-codes.ts";
import { createProgressBar } from "./progress-bar.ts";
import { resolveStore } from "./recording-place.ts";
import { detectStoreKind, readLines, openStore } from "./recordings.ts";
import type { TrafficIo, TrafficRequest } from "./traffic.ts";

/** `headgate traffic import FILE`: takes a capture into a store, which is made where there is none. */
export async function trafficImport(
  file: string,
  { values }: TrafficRequest,
  io: TrafficIo,
): Promise<number> {
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
