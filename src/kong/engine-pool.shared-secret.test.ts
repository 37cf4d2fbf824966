import { describe, expect, it } from "vitest";
import { createFakeTime } from "../../test/support/fake-time.ts";
import { createPdk } from "./pdk.ts";
import { createFixedSecret, createVaultSecret } from "./engine-pool.ts";

function start(found: () => string | undefined) {
  const calls: string[] = [];
  const kong = createPdk((name, args) => {
    calls.push([name, ...args].join(" "));
    return Promise.resolve(name === "kong.vault.get" ? found() : undefined);
  });
  return { kong, calls };
}

const warnings: string[] = [];
const warn = async (msg: string): Promise<void> => {
  warnings.push(msg);
  await Promise.resolve();
};

describe("the shared secret", () => {
  it("[PA-012] is read from the vault again after a minute, once", async () => {
    const time = createFakeTime();
    const { kong, calls } = start(() => "rotated");
    const secret = createVaultSecret("first", "{vault://env/paz}", time.clock.now);
    await time.advance(59_000);
    await secret.refresh(kong, warn);
    expect([secret.current(), calls]).toEqual(["first", []]);
    await time.advance(1000);
    await Promise.all([secret.refresh(kong, warn), secret.refresh(kong, warn)]);
    expect([secret.current(), calls]).toEqual(["rotated", ["kong.vault.get {vault://env/paz}"]]);
  });

  it("stays the same when the vault has no value, with a warning", async () => {
    const time = createFakeTime();
    const { kong } = start(() => undefined);
    const secret = createVaultSecret("first", "{vault://env/paz}", time.clock.now);
    await time.advance(60_000);
    await secret.refresh(kong, warn);
    expect(secret.current()).toBe("first");
    expect(warnings).toEqual([expect.stringContaining("no shared_secret")]);
  });

  it("[PA-012] stays the same when the vault has one that cannot be sent", async () => {
    const time = createFakeTime();
    const { kong } = start(() => "rotated\n");
    const secret = createVaultSecret("first", "{vault://env/paz}", time.clock.now);
    await time.advance(60_000);
    warnings.length = 0;
    await secret.refresh(kong, warn);
    expect([secret.current(), warnings]).toEqual(["first", [expect.stringContaining("cannot be sent")]]);
  });

  it("is never read from a vault if it is not a reference", async () => {
    const { kong, calls } = start(() => "other");
    const secret = createFixedSecret("plain");
    await secret.refresh(kong, warn);
    expect([secret.current(), calls]).toEqual(["plain", []]);
  });
});
