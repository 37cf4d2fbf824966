import { describeReader } from "../../../test/support/record-store-contract.ts";
import { createCaptureReader } from "./capture-file.ts";

describeReader("a capture file", (capture, frames) =>
  createCaptureReader(
    [
      { type: "capture", ...capture },
      ...frames.map((frame) => ({ type: "frame", ...frame }) as const),
      { type: "end", capture: capture.id, frames: frames.length, exchanges: 0 },
    ],
    "capture.ndjson",
  ),
);
