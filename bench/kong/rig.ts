import { fork } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createFakeKong, type FakeKong } from "../../test/support/fake-kong/fake-kong.ts";

/** What the plugin server says of itself. */
export interface ServerState {
  readonly cpuMicros: number;
  readonly heapBytes: number;
  /** The longest time that nothing else could run, since the question before. */
  readonly longestDelayMs: number;
  readonly instances: number;
  readonly events: number;
}

/** The plugin server in a process of its own, and Kong in this one. */
export interface KongBench extends AsyncDisposable {
  readonly kong: FakeKong;
  /** Its state; with `heap` after a collection. */
  state(question: "cpu" | "heap"): Promise<ServerState>;
}

/** Starts both; the decision point is inside of the server and answers at once. */
export async function startKongBench(settings: Readonly<Record<string, unknown>> = {}): Promise<KongBench> {
  const folder = mkdtempSync(join(tmpdir(), "headgate-kong-bench-"));
  const socket = join(folder, "kong.sock");
  const child = fork(resolve(import.meta.dirname, "server.ts"), [socket], { stdio: "ignore" });
  await once(child, "message");
  const kong = createFakeKong({
    socket,
    plugin: { name: "idpartners-ping-authorize", phases: ["access", "response"] },
    config: {
      service_url: "http://pdp.invalid",
      shared_secret: "s",
      secret_header_name: "CLIENT-TOKEN",
      ...settings,
    },
  });
  return {
    kong,
    async state(question) {
      child.send(question);
      const [answer]: unknown[] = await once(child, "message");
      // The server answers every question with its state.
      return answer as ServerState;
    },
    [Symbol.asyncDispose]: async () => {
      kong[Symbol.dispose]();
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** A request of ordinary size. */
export const ordinaryRequest = {
  method: "POST",
  path: "/v1/orders",
  query: "page=2",
  headers: {
    "content-type": "application/json",
    "user-agent": "curl/8.5.0",
    accept: "application/json",
    authorization: `Bearer ${"x".repeat(400)}`,
  },
  body: JSON.stringify({ item: "y".repeat(900) }),
};

/** Sends requests, some at the same time. */
export async function sendMany(kong: FakeKong, count: number, width: number): Promise<void> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left-- > 0) {
      await kong.send(ordinaryRequest, {
        headers: { "content-type": "application/json" },
        body: '{"ok":true}',
      });
    }
  };
  await Promise.all(Array.from({ length: width }, lane));
}
