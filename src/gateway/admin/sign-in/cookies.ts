import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type * as z from "zod";

/** What a cookie holds. Its purpose is signed too, so that one kind of cookie cannot be used as another. */
export interface CookieKind<Content> {
  readonly purpose: "console" | "login";
  readonly content: z.ZodType<Content>;
  /** `Lax` cookies come along when another site sends the browser here. */
  readonly sameSite: "Strict" | "Lax";
}

/** Writes and reads cookies that only this gateway can make. */
export interface Cookies {
  /** A `Set-Cookie` with signed content. */
  set<Content>(kind: CookieKind<Content>, content: Content, place: CookiePlace, maxAgeMs: number): string;
  /** The content of a cookie; undefined if it is missing or was not set by this gateway. */
  get<Content>(kind: CookieKind<Content>, headers: IncomingHttpHeaders): Content | undefined;
  /** The `Set-Cookie` that removes a cookie. */
  clear(kind: CookieKind<unknown>, headers: IncomingHttpHeaders): string;
}

/** The host that a cookie is for, which is part of its name. */
export interface CookiePlace {
  readonly headers: IncomingHttpHeaders;
  readonly isSecure: boolean;
}

/** Creates the cookies of a gateway. They are signed and not secret: only their owner sees them. */
export function createCookies(key: Buffer): Cookies {
  const signatureOf = (purpose: string, text: string): Buffer =>
    createHmac("sha256", key).update(`${purpose} ${text}`).digest();
  return {
    set: ({ purpose, sameSite }, content, { headers, isSecure }, maxAgeMs) => {
      const text = Buffer.from(JSON.stringify(content)).toString("base64url");
      const value = `${text}.${signatureOf(purpose, text).toString("base64url")}`;
      const end = `Max-Age=${Math.ceil(maxAgeMs / 1000)}${isSecure ? "; Secure" : ""}`;
      return `${nameOf(purpose, headers)}=${value}; Path=/; HttpOnly; SameSite=${sameSite}; ${end}`;
    },
    get: ({ purpose, content }, headers) => {
      const start = `${nameOf(purpose, headers)}=`;
      const pairs = (headers.cookie ?? "").split(";").map((pair) => pair.trim());
      const [text = "", signature = ""] = (pairs.find((pair) => pair.startsWith(start)) ?? "")
        .slice(start.length)
        .split(".");
      const [given, right] = [Buffer.from(signature, "base64url"), signatureOf(purpose, text)];
      if (given.length !== right.length || !timingSafeEqual(given, right)) return undefined;
      // We signed it, but another version of Headgate may have written it in another form.
      const parsed = content.safeParse(JSON.parse(Buffer.from(text, "base64url").toString()));
      return parsed.success ? parsed.data : undefined;
    },
    clear: ({ purpose, sameSite }, headers) =>
      `${nameOf(purpose, headers)}=; Path=/; HttpOnly; SameSite=${sameSite}; Max-Age=0`,
  };
}

/** Browsers send cookies to every port of a host, so each gateway has its own name for them. */
function nameOf(purpose: CookieKind<unknown>["purpose"], { host = "" }: IncomingHttpHeaders): string {
  const own = /:(?<port>\d+)$/u.exec(host)?.groups?.["port"] ?? "console";
  return purpose === "console" ? `headgate-${own}` : `headgate-${purpose}-${own}`;
}
