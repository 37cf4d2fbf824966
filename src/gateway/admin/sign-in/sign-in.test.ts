import { describe, expect, it } from "vitest";

import { createFakeTime } from "../../../../test/support/fake-time.ts";
import { openEndedSessions } from "../../../sessions/ended-sessions.ts";
import { createAdminToken, createSignIn, owner } from "./sign-in.ts";
import { createTicket } from "./ticket.ts";

const token = createAdminToken();
const headers = { host: "127.0.0.1:8484" };
const place = { headers, isSecure: false };
const hour = 3_600_000;

const wallStart = 1_000_000;

/** A sign-in with time of its own. */
function at(ended = openEndedSessions(undefined, () => 0), own = token, start = wallStart, roles = "") {
  const time = createFakeTime(start);
  return { ...time, ended, signIn: createSignIn(own, { ...time, ended, roles }) };
}

function cookieOf(setCookie: string | undefined): string {
  return (setCookie ?? "").split(";")[0] ?? "";
}

function signedIn({ signIn }: Pick<ReturnType<typeof at>, "signIn">) {
  const cookie = cookieOf(signIn.redeem(signIn.issueTicket(), place));
  return { cookie, who: () => signIn.callerOf({ ...headers, cookie }) };
}

describe("signing in to the console", () => {
  it("takes a ticket once and gives a cookie that scripts and other sites cannot use", async () => {
    const { signIn } = at();
    const ticket = signIn.issueTicket();
    const setCookie = signIn.redeem(ticket, { headers, isSecure: true });
    expect(setCookie).toMatch(/^headgate-8484=\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=43200; Secure$/u);
    for (const again of [ticket, `${ticket}0`, `${ticket}a`, `0${ticket}`, ticket.toUpperCase(), ` ${ticket}`])
      expect(signIn.redeem(again, place)).toBeUndefined();
    expect(await signIn.callerOf({ ...headers, cookie: `a=b; ${cookieOf(setCookie)}` })).toMatchObject(owner);
  });

  it("takes the token itself, and no other", async () => {
    const { signIn } = at();
    expect(await signIn.callerOf({ ...headers, authorization: `Bearer ${token}` })).toEqual(owner);
    for (const authorization of ["Bearer x", "Bearer", token, `Basic ${token}`, `Bearer ${token}x`])
      expect(await signIn.callerOf({ ...headers, authorization })).toBeUndefined();
  });

  it("takes tickets that the command made of the same token, and cookies from before a restart", async () => {
    const [before, after, other] = [at(), at(), at(undefined, createAdminToken())];
    const cookie = cookieOf(before.signIn.redeem(createTicket(token, wallStart), place));
    expect(await after.signIn.callerOf({ ...headers, cookie })).toMatchObject(owner);
    expect(await other.signIn.callerOf({ ...headers, cookie })).toBeUndefined();
  });

  it("takes no cookie with rights that were given by other roles", async () => {
    const [before, after, changed] = ["a", "a", "b"].map((roles) => at(undefined, token, wallStart, roles).signIn);
    const cookie = cookieOf(before?.start({ name: "ann", rights: ["view", "operate"] }, place, hour));
    expect(await after?.callerOf({ ...headers, cookie })).toMatchObject({ name: "ann" });
    expect(await changed?.callerOf({ ...headers, cookie })).toBeUndefined();
    expect(changed?.redeem(createTicket(token, wallStart), place)).toBeDefined();
  });

  it("takes no ticket from before a restart, because nobody knows any more whether it was used", () => {
    const { signIn } = at();
    const ticket = signIn.issueTicket();
    expect(signIn.redeem(ticket, place)).toBeDefined();
    const restarted = at(undefined, token, wallStart + 1000).signIn;
    expect(restarted.redeem(ticket, place)).toBeUndefined();
    expect(restarted.redeem(createTicket(token, wallStart + 1000), place)).toBeDefined();
  });

  it("forgets tickets after an hour and sessions after twelve, or when their time is over", async () => {
    const { signIn, advance } = at();
    const [ticket, late] = [signIn.issueTicket(), signIn.issueTicket()];
    const cookie = cookieOf(signIn.redeem(ticket, place));
    const short = signIn.start({ name: "ann", rights: ["view"] }, place, hour / 2);
    expect(short).toContain("Max-Age=1800");
    expect(await signIn.callerOf({ ...headers, cookie: cookieOf(short) })).toMatchObject({ name: "ann" });
    await advance(hour + 1);
    expect(signIn.redeem(late, place)).toBeUndefined();
    expect(await signIn.callerOf({ ...headers, cookie })).toMatchObject(owner);
    expect(await signIn.callerOf({ ...headers, cookie: cookieOf(short) })).toBeUndefined();
    await advance(11 * hour);
    expect(await signIn.callerOf({ ...headers, cookie })).toBeUndefined();
  });

  it("ends a session for good when its owner signs out: copies of the cookie, other gateways, after a restart", async () => {
    const first = at();
    const [one, other] = [signedIn(first), signedIn(first)];
    const caller = await one.who();
    if (caller === undefined) throw new Error("nobody is signed in");
    expect(first.signIn.end(caller, headers)).toMatch(/^headgate-8484=; .*Max-Age=0$/u);
    expect(await one.who()).toBeUndefined();
    expect(await other.who()).toMatchObject(owner);
    const restarted = at(first.ended);
    expect(await restarted.signIn.callerOf({ ...headers, cookie: one.cookie })).toBeUndefined();
    expect(await restarted.signIn.callerOf({ ...headers, cookie: other.cookie })).toMatchObject(owner);
  });

  it("tells those who watch a session when it ends, and leaves nothing behind when they stop", async () => {
    const { signIn, advance, pending, ended } = at();
    const callers = await Promise.all([1, 2, 3, 4].map(async () => signedIn({ signIn }).who()));
    const over: number[] = [];
    const stops = callers.map((caller, index) => signIn.watch(caller ?? owner, () => over.push(index)));
    const [signingOut, elsewhere, stopped] = callers;
    signIn.end(signingOut ?? owner, headers);
    expect(over).toEqual([0]);
    // Another gateway that shares the list has ended it.
    ended.add({ id: `console ${elsewhere?.session?.id ?? ""}`, owner: "console", openedAt: 0, expiresAt: 1e12 });
    expect(stopped).toBeDefined();
    stops[0]?.();
    stops[2]?.();
    await advance(15_000);
    expect(over).toEqual([0, 1]);
    await advance(12 * hour);
    expect(over).toEqual([0, 1, 3]);
    for (const stop of stops) stop();
    expect(pending()).toBe(0);
    signIn.watch(owner, () => over.push(9))();
    expect(pending()).toBe(0);
  });

  it("takes nothing that was forged, cut or meant for something else", async () => {
    const { signIn } = at();
    const ticket = signIn.issueTicket();
    const cookie = signedIn({ signIn }).cookie.slice("headgate-8484=".length);
    const [text = "", signature = ""] = cookie.split(".");
    const stronger = Buffer.from(Buffer.from(text, "base64url").toString().replace("owner", "other"));
    for (const value of [
      ticket,
      "",
      ".",
      text,
      `${text}.`,
      `.${signature}`,
      `${stronger.toString("base64url")}.${signature}`,
      `${text}.${signature.slice(1)}`,
      "💥.💥",
    ])
      expect(await signIn.callerOf({ ...headers, cookie: `headgate-8484=${value}` })).toBeUndefined();
    // The same bytes under the name of another kind of cookie.
    const login = { purpose: "login", sameSite: "Lax", content: { safeParse: () => ({ success: true }) } } as never;
    expect(signIn.cookies.get(login, { ...headers, cookie: `headgate-login-8484=${cookie}` })).toBeUndefined();
    const [time = "", id = "", mac = ""] = ticket.split("_");
    for (const value of [`z${time}_${id}_${mac}`, `${time}_${id}00_${mac}`, `${time}_${id}_${mac.slice(2)}`, cookie])
      expect(signIn.redeem(value, place)).toBeUndefined();
    for (const value of ["", "x.y", `${ticket}x`]) expect(signIn.redeem(value, place)).toBeUndefined();
  });
});
