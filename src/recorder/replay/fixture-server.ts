/** Captures as fixtures of tests: `import { mockFrom } from "headgate/testing"`. */

import { readCaptureFile } from "../store/capture-file.ts";
import { createMock, describeUnmatched, type MockRequest } from "./mock.ts";
import { serveMockHttp } from "./mock-server.ts";
import { readRecordedTraffic } from "./recorded-call.ts";

/** How a capture is served. */
export interface MockFromOptions {
  /** As clients saw the gateway, which is the default, or as the gateway saw the server behind it. */
  readonly leg?: "client" | "upstream";
}

/** A request that came to a recorded server. */
export interface MockCall {
  readonly method: string;
  readonly params: unknown;
  /** Whether it had been recorded; handshakes always are answered. */
  readonly isRecorded: boolean;
}

/** A recorded server for a test; leaving the scope that holds it ends it. */
export interface MockServer extends AsyncDisposable {
  /** Its endpoint for Streamable HTTP, on a free port of this machine. */
  readonly url: string;
  /** What came so far, by method and by the name of a tool, prompt or resource where they are given. */
  calls(method?: string, target?: string): readonly MockCall[];
  /** Throws where a request came that was not recorded, with the nearest recordings. */
  assertNoMisses(): void;
  /** Throws where something was recorded that nobody has asked for; a miss counts too. */
  assertAllUsed(): void;
  close(): Promise<void>;
}

/**
 * Serves a capture file, as `headgate traffic export` writes it, as a server for tests: the same requests get the same
 * answers, whatever their ids and tokens.
 *
 * @example
 * await using harbor = await mockFrom("test/fixtures/harbor.ndjson");
 * await client.connect(new StreamableHTTPClientTransport(new URL(harbor.url)));
 * // … what is to be tested
 * harbor.assertAllUsed();
 */
export async function mockFrom(file: string, { leg = "client" }: MockFromOptions = {}): Promise<MockServer> {
  const mock = createMock(await readRecordedTraffic(readCaptureFile(file), { leg }));
  const server = await serveMockHttp(mock);

  function assertNoMisses(): void {
    if (mock.misses.length > 0) throw new Error(mock.misses.map(describeUnmatched).join("\n"));
  }

  return {
    url: server.url,
    calls: (method, target) =>
      mock.calls
        .filter((one) => (method === undefined || one.method === method) && isAbout(one, target))
        .map(({ method: asked, params, call }) => ({
          method: asked,
          params,
          isRecorded: call !== undefined || !mock.misses.some((miss) => miss.params === params),
        })),
    assertNoMisses,
    assertAllUsed: () => {
      assertNoMisses();
      const unused = mock.unused();
      if (unused.length === 0) return;
      const names = unused.map(({ method, target = "", exchange }) => `${method} ${target} (${exchange})`);
      throw new Error(`recorded, and never asked for:\n  ${names.join("\n  ")}`);
    },
    close: () => server.close(),
    [Symbol.asyncDispose]: () => server.close(),
  };
}

function isAbout({ params }: MockRequest, target: string | undefined): boolean {
  if (target === undefined) return true;
  if (typeof params !== "object" || params === null) return false;
  const { name, uri } = params as Readonly<Record<string, unknown>>;
  return name === target || uri === target;
}
