import { describe, expect, it } from "vitest";

import { createAdminToken, createSignIn, createTicket, owner } from "./sign-in.ts";

const token = createAdminToken();
const headers = { host: "127.0.0.1:8484" };

function at() {
  const time = { now: 1_000_000 };
  return { time, signIn: createSignIn(token, { wall: () => time.now }) };
}

function cookieOf(setCookie: string | undefined): string {
  return (setCookie ?? "").split(";")[0] ?? "";
}

describe("signing in to the console", () => {
  it("takes a ticket once and gives a cookie that scripts and other sites cannot use", () => {
    const { signIn } = at();
    const ticket = signIn.issueTicket();
    const setCookie = signIn.redeem(ticket, headers, true);
    expect(setCookie).toMatch(/^headgate-8484=\S+; Path=\/; HttpOnly; SameSite=Strict; Max-Age=\d+; Secure$/u);
    for (const again of [ticket, `${ticket}0`, `${ticket}a`, `0${ticket}`, ticket.toUpperCase(), ` ${ticket}`])
      expect(signIn.redeem(again, headers, true)).toBeUndefined();
    expect(signIn.callerOf({ ...headers, cookie: `a=b; ${cookieOf(setCookie)}` })).toEqual(owner);
  });

  it("takes the token itself, and no other", () => {
    const { signIn } = at();
    expect(signIn.callerOf({ ...headers, authorization: `Bearer ${token}` })).toEqual(owner);
    for (const authorization of ["Bearer x", "Bearer", token, `Basic ${token}`, `Bearer ${token}x`])
      expect(signIn.callerOf({ ...headers, authorization })).toBeUndefined();
  });

  it("takes tickets that the command made of the same token, and cookies from before a restart", () => {
    const [before, after] = [at().signIn, at().signIn];
    const cookie = cookieOf(before.redeem(createTicket(token, 1_000_000), headers, false));
    expect(after.callerOf({ ...headers, cookie })).toEqual(owner);
    expect(createSignIn(createAdminToken(), { wall: () => 0 }).callerOf({ ...headers, cookie })).toBeUndefined();
  });

  it("takes no ticket from before a restart, because nobody knows any more whether it was used", () => {
    const { time, signIn } = at();
    const ticket = signIn.issueTicket();
    expect(signIn.redeem(ticket, headers, false)).toBeDefined();
    time.now += 1000;
    const restarted = createSignIn(token, { wall: () => time.now });
    expect(restarted.redeem(ticket, headers, false)).toBeUndefined();
    expect(restarted.redeem(createTicket(token, time.now), headers, false)).toBeDefined();
  });

  it("forgets tickets after an hour and cookies after twelve", () => {
    const { time, signIn } = at();
    const [ticket, late] = [signIn.issueTicket(), signIn.issueTicket()];
    const cookie = cookieOf(signIn.redeem(ticket, headers, false));
    time.now += 3_600_001;
    expect(signIn.redeem(late, headers, false)).toBeUndefined();
    expect(signIn.callerOf({ ...headers, cookie })).toEqual(owner);
    time.now += 11 * 3_600_000;
    expect(signIn.callerOf({ ...headers, cookie })).toBeUndefined();
  });

  it("takes nothing that was forged, cut or meant for something else", () => {
    const { signIn } = at();
    const ticket = signIn.issueTicket();
    const cookie = cookieOf(signIn.redeem(signIn.issueTicket(), headers, false)).slice("headgate-8484=".length);
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
      expect(signIn.callerOf({ ...headers, cookie: `headgate-8484=${value}` })).toBeUndefined();
    const [time = "", id = "", mac = ""] = ticket.split("_");
    for (const value of [`z${time}_${id}_${mac}`, `${time}_${id}00_${mac}`, `${time}_${id}_${mac.slice(2)}`, cookie])
      expect(signIn.redeem(value, headers, false)).toBeUndefined();
    for (const value of ["", "x.y", `${ticket}x`]) expect(signIn.redeem(value, headers, false)).toBeUndefined();
  });
});
