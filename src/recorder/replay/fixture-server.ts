/** Captures as fixtures of tests: `import { mockFrom } from "headgate/testing"`. */

import { readCaptureFile } from "../store/capture-file.ts";
import { createMock, describeUnmatched, type ReceivedRequest } from "./mock.ts";
import { serveMockHttp } from "./mock-server.ts";
import { readRecordedTraffic } from "./recorded-call.ts";

/** Options of {@link mockFrom}. */
export interface MockFromOptions {
  /** The leg to serve: what clients saw, or what the gateway saw of its upstream. Default: `client`. */
  readonly leg?: "client" | "upstream";
}

/** A request that a mock server received. */
export interface MockCall {
  readonly method: string;
  readonly params: unknown;
  /** Whether it was recorded; handshakes always are. */
  readonly isRecorded: boolean;
}

/** A mock server for a test; use `await using`. */
export interface MockServer extends AsyncDisposable {
  /** Its Streamable HTTP endpoint, on a free port of the loopback interface. */
  readonly url: string;
  /** The requests so far, optionally of one method and one tool, prompt or resource. */
  calls(method?: string, target?: string): readonly MockCall[];
  /** Throws if a request was not recorded, with the nearest recorded calls. */
  assertNoMisses(): void;
  /** Throws if a recorded call was not requested, or a request was not recorded. */
  assertAllUsed(): void;
  close(): Promise<void>;
}

/**
 * Serves a capture file of `headgate traffic export` as an MCP server for tests. Equal requests get the recorded answers,
 * whatever their ids and tokens.
 *
 * @example
 * await using harbor = await mockFrom("test/fixtures/harbor.ndjson");
 * await client.connect(new StreamableHTTPClientTransport(new URL(harbor.url)));
 * // … run the code under test
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
      throw new Error(`recorded calls that were not requested:\n  ${names.join("\n  ")}`);
    },
    close: () => server.close(),
    [Symbol.asyncDispose]: () => server.close(),
  };
}

function isAbout({ params }: ReceivedRequest, target: string | undefined): boolean {
  if (target === undefined) return true;
  if (typeof params !== "object" || params === null) return false;
  const { name, uri } = params as Readonly<Record<string, unknown>>;
  return name === target || uri === target;
}
