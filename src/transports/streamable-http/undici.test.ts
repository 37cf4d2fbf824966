import * as undici from "undici";
import { expect, it } from "vitest";

import { buildConnector, Client, errors, ProxyAgent } from "./undici.ts";

it("gives what undici itself exports", () => {
  expect(Client).toBe(undici.Client);
  expect(ProxyAgent).toBe(undici.ProxyAgent);
  expect(buildConnector).toBe(undici.buildConnector);
  expect(errors).toBe(undici.errors);
});
