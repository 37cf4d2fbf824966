import { decodeProtectedHeader } from "jose";
import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../test/support/fake-time.ts";
import { createKeyring, fakeAsk } from "../../test/support/tokens.ts";
import { createKeySet } from "./key-set.ts";

const url = "https://login.example/jwks";

async function setUp() {
  const time = createFakeTime();
  const keyring = await createKeyring("https://login.example", time.clock.wall);
  const state: { answer: () => { status?: number; json?: unknown } } = {
    answer: () => ({ json: keyring.published() }),
  };
  const { ask, asked } = fakeAsk({ [url]: () => state.answer() });
  const troubles: string[] = [];
  const keys = createKeySet({
    locate: async () => url,
    ask,
    clock: time.clock,
    onError: ({ message }) => troubles.push(message),
  });
  const find = async (keyId: string) => keys.find({ alg: "ES256", kid: keyId }, { payload: "", signature: "" });
  return { time, keyring, state, keys, find, troubles, fetches: () => asked(url) };
}

describe("a key set", () => {
  it("is fetched when it is first needed, and once for all who wait", async () => {
    const { find, fetches } = await setUp();
    expect(fetches()).toBe(0);
    await Promise.all([find("key-1"), find("key-1")]);
    await find("key-1");
    expect(fetches()).toBe(1);
  });

  it("is not fetched again for every unknown key", async () => {
    const { find, fetches, time } = await setUp();
    await find("key-1");
    for (const id of ["x", "y", "z"]) await expect(find(id)).rejects.toThrow("no applicable key");
    expect(fetches()).toBe(1);
    await time.advance(30_000);
    for (const id of ["x", "y", "z"]) await expect(find(id)).rejects.toThrow("no applicable key");
    expect(fetches()).toBe(2);
  });

  it("stays in use while the issuer is away, but not for ever", async () => {
    const { find, state, time, troubles } = await setUp();
    await find("key-1");
    state.answer = () => ({ status: 500 });
    await time.advance(59 * 60_000);
    await find("key-1");
    await time.advance(2 * 60_000);
    await expect(find("key-1")).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(troubles.length).toBeGreaterThan(0);
  });

  it("leaves an issuer that failed alone for a moment", async () => {
    const { find, state, time, fetches } = await setUp();
    const fine = state.answer;
    state.answer = () => ({ json: { not: "keys" } });
    await expect(find("key-1")).rejects.toMatchObject({ code: "upstream_unreachable" });
    await expect(find("key-1")).rejects.toMatchObject({ code: "upstream_unreachable" });
    expect(fetches()).toBe(1);
    state.answer = fine;
    await time.advance(30_000);
    await find("key-1");
    expect(fetches()).toBe(2);
  });

  it("changes its generation only when a key is withdrawn", async () => {
    const { find, keys, keyring, time } = await setUp();
    await find("key-1");
    const first = keys.generation();
    await keyring.rotate({ keepsOld: true });
    await time.advance(10 * 60_000);
    keys.generation();
    await time.advance(0);
    expect(keys.generation()).toBe(first);
    await find("key-2");
    await keyring.rotate();
    await time.advance(10 * 60_000);
    keys.generation();
    await time.advance(0);
    expect(keys.generation()).not.toBe(first);
  });

  it("gives the key that a real token names", async () => {
    const { find, keyring } = await setUp();
    const { kid = "" } = decodeProtectedHeader(await keyring.token({}));
    expect((await find(kid)).type).toBe("public");
  });
});
