// What an open answer costs by itself: a bare undici pool that makes as many calls as it is told and reads what comes of
// them, which is a question each and never an end.
import { createServer } from "node:http";
import { Pool } from "undici";
import type { Dispatcher } from "undici";
import { callBody, firstId, postHeaders } from "./calls.ts";
import { announce } from "./serve.ts";

const { origin, pathname } = new URL(process.argv[2] ?? "");
const pool = new Pool(origin, { connections: null, pipelining: 1, headersTimeout: 0, bodyTimeout: 0 });
const headers = postHeaders("legacy", "bench-1");

class Reader implements Dispatcher.DispatchHandler {
  readonly #resolve: () => void;

  constructor(resolve: () => void) {
    this.#resolve = resolve;
  }

  onRequestStart(): void {}

  onResponseStart(controller: Dispatcher.DispatchController): void {
    controller.rawHeaders = null;
  }

  onResponseData(): void {
    this.#resolve();
  }

  onResponseEnd(): void {}

  onResponseError(_controller: unknown, error: Error): void {
    throw error;
  }
}

async function open(count: number): Promise<void> {
  for (let made = 0; made < count; made += 1) {
    const { promise, resolve } = Promise.withResolvers<void>();
    const body = callBody("legacy", firstId + made, "ask");
    pool.dispatch({ path: pathname, method: "POST", headers, body }, new Reader(resolve));
    await promise;
  }
}

/** Opens as many more as the body says, and answers when they are open. */
const server = createServer((request, response) => {
  let text = "";
  request.setEncoding("utf8");
  request.on("data", (chunk: string) => (text += chunk));
  request.on("end", () => {
    void open(Number(text)).then(() => response.end());
  });
});
announce(server, "/");
