import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";

import { createAdminPaths } from "./admin.ts";

it.each(["/readyz", "/metrics"])("answers %s with 500 where it fails, and goes on", async (path) => {
  const fails = async (): Promise<never> => Promise.reject(new Error("a worker has gone"));
  const paths = createAdminPaths(
    fails,
    fails,
    () => {},
    () => undefined,
  );
  const server = createServer((request, response) => paths(request.url ?? "")?.(request, response));
  await new Promise<void>((resolve) => {
    server.listen(0, "127.0.0.1", resolve);
  });
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  const failed = await fetch(`http://127.0.0.1:${port}${path}`);
  expect([failed.status, await failed.text()]).toEqual([500, "internal error\n"]);
  expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200);
});
