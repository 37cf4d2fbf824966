import { startFixture, stdioFixture } from "../support/fixture.ts";
import { startGateway } from "../support/gateway.ts";
import type { Lane, Way } from "./lanes.ts";

/** A running endpoint for the suite; leaving the scope that holds it ends everything behind it. */
export interface Target extends AsyncDisposable {
  readonly url: string;
}

/** Starts the lane's server, and the gateway in front of it where the way has one. */
export async function startTarget(way: Way, lane: Lane): Promise<Target> {
  const fixture = way === "direct" ? lane.fixture : (lane.behindGateway ?? lane.fixture);
  switch (way) {
    case "direct":
      return startFixture(fixture);
    case "stdio":
      return startGateway(["run", "--port", "0", "--", ...stdioFixture(fixture)]);
    case "http": {
      await using started = new AsyncDisposableStack();
      const server = started.use(await startFixture(fixture));
      const { url } = started.use(await startGateway(["run", "--upstream", server.url, "--port", "0"]));
      const kept = started.move();
      return { url, [Symbol.asyncDispose]: async () => kept.disposeAsync() };
    }
  }
}
