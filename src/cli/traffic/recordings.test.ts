import { describe, expect, it } from "vitest";

import { localConfig } from "../../../test/support/local-gateway.ts";
import { defaultRecordingFile, withDefaultRecord } from "./recordings.ts";

const upstream = { demo: true } as const;
const env = { HOME: "/home/ann" };
const record = (written: Parameters<typeof localConfig>[0]) => withDefaultRecord(localConfig(written), env).record;

describe("recording by default", () => {
  it("is on, to the file that the other commands read", () => {
    expect(record({ upstream })).toMatchObject({ file: defaultRecordingFile(env), onFailure: "drop" });
    expect(record({ upstream, record: { bodyBytes: 7 } })).toMatchObject({
      file: defaultRecordingFile(env),
      bodyBytes: 7,
    });
  });

  it("is what the configuration says, where it says something", () => {
    expect(record({ upstream, record: false })).toBe(false);
    expect(record({ upstream, record: { file: "/x" } })).toMatchObject({ file: "/x" });
    expect(record({ upstream, record: { postgres: "postgres://db/x" } })).not.toHaveProperty("file");
  });

  it("is off where there is no home to keep recordings in", () => {
    expect(withDefaultRecord(localConfig({ upstream }), {}).record).toBe(false);
  });
});
