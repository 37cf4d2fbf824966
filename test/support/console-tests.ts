import type { Browser } from "playwright-core";
import { afterAll, beforeAll } from "vitest";

import { startChromium } from "./chromium.ts";
import { openConsoleTraffic } from "./console-places.ts";

type ConsoleTraffic = Awaited<ReturnType<typeof openConsoleTraffic>>;

/** Has a browser and a gateway with traffic for the tests of a file. */
export function useConsoleTraffic(): { readonly browser: Browser; readonly traffic: ConsoleTraffic } {
  let opened: readonly [Browser & AsyncDisposable, ConsoleTraffic] | undefined;
  const present = () => {
    if (opened === undefined) throw new Error("only tests have a browser");
    return opened;
  };
  beforeAll(async () => {
    opened = await Promise.all([startChromium(), openConsoleTraffic()]);
  });
  afterAll(async () => {
    for (const part of opened ?? []) await part[Symbol.asyncDispose]();
  });
  return {
    get browser() {
      return present()[0];
    },
    get traffic() {
      return present()[1];
    },
  };
}
