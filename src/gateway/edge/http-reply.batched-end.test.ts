import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it } from "vitest";
import { endBatched } from "./http-reply.ts";

it("answers that are ready in one turn leave in their order at its end, and a broken one keeps back none", async () => {
  const waiting: ServerResponse[] = [];
  const ready = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    waiting.push(response);
    if (waiting.length === 3) ready.resolve();
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  // A server that listens on a port has an address of this form.
  const { port } = server.address() as AddressInfo;
  const answers = [0, 1, 2].map((n) =>
    fetch(`http://127.0.0.1:${port}/${n}`).then(
      (response) => response.text(),
      () => "broken",
    ),
  );
  await ready.promise;
  const finished: (string | undefined)[] = [];
  for (const response of waiting) {
    const url = response.req.url;
    response.on("finish", () => finished.push(url));
    if (url === "/1") {
      response.end = () => {
        throw new Error("cannot be written");
      };
    }
    endBatched(response, `to ${url}`);
  }
  expect(waiting.map(({ writableEnded }) => writableEnded)).toEqual([false, false, false]);
  expect(await Promise.all(answers)).toEqual(["to /0", "broken", "to /2"]);
  expect(finished).toEqual(waiting.map(({ req }) => req.url).filter((url) => url !== "/1"));
  server.close();
});
