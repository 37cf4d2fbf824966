import { signal } from "@preact/signals";

import type { About, RouteAbout } from "../../../src/gateway/admin/schemas.ts";
import type { SignInFailure } from "../../../src/gateway/admin/wire.ts";
import { ApiError, get, onSignedOut, post, remove } from "./api.ts";
import { forgetStored, store, stored } from "./page-store.ts";
import { href, place, replace } from "./route.ts";

/** Whether somebody is signed in. */
export type SessionState =
  | { readonly type: "starting" }
  | { readonly type: "in"; readonly about: About }
  | { readonly type: "out"; readonly reason: string | undefined }
  | { readonly type: "unreachable"; readonly reason: string };

/** The state of the session, for the whole page. */
export const session = signal<SessionState>({ type: "starting" });

onSignedOut(() => {
  if (session.value.type !== "in") return;
  keepPlace();
  session.value = { type: "out", reason: "Your session has ended." };
});

/** Keeps where somebody is who has to sign in first: signing in leads through other pages. */
function keepPlace(): void {
  if (!ways.has(place.peek().view)) store("place", location.hash === "" ? undefined : location.hash);
}

/** Returns to where somebody was before signing in. */
function returnToPlace(): void {
  const before = stored("place");
  store("place", undefined);
  if (before !== undefined && ["", href("live")].includes(location.hash)) replace(before);
}

/** Addresses that sign in, or say why that failed. */
const ways: ReadonlySet<string> = new Set(["login", "failed"]);

const failures: Readonly<Record<SignInFailure, string>> = {
  refused: "Sign-in failed. Try again; the gateway's log has the details.",
  "no-role": "You signed in, but have no role here. Ask the operator of this gateway for one.",
  unavailable: "The sign-in service does not respond. Try again later.",
};

/** Whether rows have to say which route they are about. */
export function hasSeveralRoutes(): boolean {
  return session.value.type === "in" && session.value.about.routes.length > 1;
}

/** Signs in with the ticket of a one-time link, or continues a session. */
export async function startSession(): Promise<void> {
  const { view, id } = place.peek();
  try {
    if (view === "failed" && id !== undefined) {
      replace(href("live"));
      // The address is not ours to trust: it chooses among texts, and is none itself.
      session.value = { type: "out", reason: Object.hasOwn(failures, id) ? failures[id as SignInFailure] : undefined };
      return;
    }
    if (view === "login" && id !== undefined) {
      // The ticket leaves the address before anything can remember it.
      replace(href("live"));
      await signInBy(id);
    }
    const found = await currentSession();
    if (found.type === "in") returnToPlace();
    else keepPlace();
    session.value = found;
  } catch (error) {
    session.value = stateOf(error);
  }
}

/** Exchanges a ticket for a session. A link that was used before still opens the session that it began. */
async function signInBy(ticket: string): Promise<void> {
  try {
    await post("session", { ticket });
  } catch (error) {
    const { signedIn } = await get<{ readonly signedIn: boolean }>("session");
    if (!signedIn) throw error;
  }
}

addEventListener("hashchange", () => {
  if (ways.has(place.peek().view)) void startSession();
});

/** Who is signed in, and which routes there are. */
async function currentSession(): Promise<SessionState> {
  try {
    // Asked first: the gateway counts and records what it refuses.
    const { signedIn } = await get<{ readonly signedIn: boolean }>("session");
    if (!signedIn) return { type: "out", reason: undefined };
    return { type: "in", about: await get<About>("about") };
  } catch (error) {
    // The page says itself how to sign in.
    if (error instanceof ApiError && error.status === 401) return { type: "out", reason: undefined };
    throw error;
  }
}

/** How people can sign in here: by OpenID Connect, or with a link that a command makes. */
export interface WaysIn {
  readonly oidc: boolean;
  readonly command: string;
}

/** Asks how people can sign in here. */
export function waysIn(): Promise<WaysIn> {
  return get<WaysIn>("session");
}

/** Signs out. */
export async function signOut(): Promise<void> {
  await remove("session");
  forgetStored();
  session.value = { type: "out", reason: "You have signed out." };
}

/** Learns what has changed on the gateway; that the session has ended is noticed, too. */
export async function refreshSession(): Promise<void> {
  if (session.peek().type !== "in" || document.hidden) return;
  // A gateway that does not answer is noticed by what is being shown.
  const about = await get<About>("about").catch(() => undefined);
  const state = session.peek();
  if (about === undefined || state.type !== "in") return;
  const facts = (one: About): string => JSON.stringify({ ...one, now: 0 });
  if (facts(about) !== facts(state.about)) session.value = { type: "in", about };
}

function stateOf(error: unknown): SessionState {
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof ApiError && error.status === 0) return { type: "unreachable", reason };
  return { type: "out", reason };
}

/** What is known of a route; undefined if it is no longer configured. */
export function aboutRoute(name: string): RouteAbout | undefined {
  const state = session.value;
  return state.type === "in" ? state.about.routes.find((one) => one.name === name) : undefined;
}

/** Whether the signed-in person may do something. */
export function may(right: "view" | "bodies" | "operate" | "approve"): boolean {
  const state = session.value;
  return state.type === "in" && state.about.caller.rights.includes(right);
}
