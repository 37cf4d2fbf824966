import { signal } from "@preact/signals";

import type { About } from "../../../src/gateway/admin/schemas.ts";
import type { SignInFailure } from "../../../src/gateway/admin/wire.ts";
import { ApiError, get, onSignedOut, post, remove } from "./api.ts";
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
  if (session.value.type === "in") session.value = { type: "out", reason: "Your session has ended." };
});

const failures: Readonly<Record<SignInFailure, string>> = {
  refused: "Signing in did not work. Try again; the log of the gateway says more.",
  "no-role": "You are known, but have no role here. Ask the operator of this gateway for one.",
  unavailable: "The service that signs people in does not answer. Try again later.",
};

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
      await post("session", { ticket: id });
    }
    await refreshAbout();
  } catch (error) {
    session.value = stateOf(error);
  }
}

addEventListener("hashchange", () => {
  if (["login", "failed"].includes(place.peek().view)) void startSession();
});

/** Reads again who is signed in and which routes there are. */
async function refreshAbout(): Promise<void> {
  session.value = { type: "in", about: await get<About>("about") };
}

/** Whether people can sign in by OpenID Connect here. */
export async function hasOidc(): Promise<boolean> {
  return (await get<{ readonly oidc: boolean }>("session")).oidc;
}

/** Signs out. */
export async function signOut(): Promise<void> {
  await remove("session");
  session.value = { type: "out", reason: "You have signed out." };
}

function stateOf(error: unknown): SessionState {
  const reason = error instanceof Error ? error.message : String(error);
  if (error instanceof ApiError && error.status === 0) return { type: "unreachable", reason };
  return { type: "out", reason: error instanceof ApiError && error.status === 401 ? error.message : reason };
}

/** Whether the signed-in person may do something. */
export function may(right: "view" | "bodies" | "operate" | "approve"): boolean {
  const state = session.value;
  return state.type === "in" && state.about.caller.rights.includes(right);
}
