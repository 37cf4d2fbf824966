import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";

import { heapInUse } from "../../../test/support/heap.ts";
import { sseUpstream } from "../../../test/support/legacy-sse.ts";
import { anonymous } from "../../core/exchange.ts";
import { createPostQueue } from "./post-queue.ts";

it("[SC-090] keeps nothing of what has been posted, however long the session is open", async () => {
  const server = createServer((request, response) => {
    request.resume();
    response.writeHead(202).end();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo;
  await using target = sseUpstream(`http://127.0.0.1:${port}/sse`);
  const posts = createPostQueue({
    ...target.upstream,
    principalOf: () => anonymous,
    maxPending: 100,
    maxPendingBytes: 1_000_000,
  });
  posts.open("/messages");
  const message = Buffer.from('{"jsonrpc":"2.0","id":1,"method":"ping"}');
  const post = async (count: number): Promise<number> => {
    for (let left = count; left > 0; left -= 50)
      await Promise.all(Array.from({ length: 50 }, () => posts.send(message)));
    return heapInUse();
  };
  const before = await post(5000);
  const after = await post(10_000);
  // One value kept of each would be some eighty bytes.
  expect(after - before).toBeLessThan(300_000);
  server.close();
  // 15,000 requests, which take more than a minute on a busy machine.
}, 300_000);
