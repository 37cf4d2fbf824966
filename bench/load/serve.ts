import type { Server } from "node:net";

/** Listens on a free loopback port and says where, in the words of the gateway. */
export function announce(server: Server, path: string): void {
  server.listen(0, "127.0.0.1", () => {
    const address = server.address();
    if (address === null || typeof address === "string") throw new Error("listening on no port");
    console.error(`listening on http://127.0.0.1:${address.port}${path}`);
  });
}
