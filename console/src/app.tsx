import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

import { Icon } from "./parts/icon.tsx";
import { Empty } from "./parts/notices.tsx";
import { isPaletteOpen, Palette } from "./palette.tsx";
import { isAway } from "./state/api.ts";
import { useLoaded } from "./state/load.ts";
import { go, href, place } from "./state/route.ts";
import { may, refreshSession, session, signOut, startSession, waysIn } from "./state/session.ts";
import { nextTheme, theme } from "./state/theme.ts";
import { ExchangeView } from "./views/exchange/exchange-view.tsx";
import { visibleText } from "./text.ts";
import { views } from "./views.tsx";

const refreshMs = 5000;

/** The whole page. */
export function App() {
  const state = session.value;
  useKeys();
  useEffect(() => {
    const timer = setInterval(() => void refreshSession(), refreshMs);
    return () => clearInterval(timer);
  }, []);
  if (state.type === "starting")
    return (
      <div class="sign-in" role="status">
        Signing in…
      </div>
    );
  if (state.type === "out" || state.type === "unreachable") return <SignedOut reason={state.reason} />;
  return (
    <>
      <div class="shell">
        <Side />
        <CurrentView />
      </div>
      <Palette />
      <div class="away" role="status">
        {isAway.value && "The gateway does not answer. What is shown may be out of date; it is asked again."}
      </div>
    </>
  );
}

function CurrentView() {
  const { view, id } = place.value;
  const state = session.value;
  const held = state.type === "in" ? state.about.held : 0;
  useEffect(() => {
    const name = views.find((one) => one.view === view)?.name ?? "Exchange";
    // A message that waits for a person is told in the browser's tab, too.
    document.title = `${held > 0 ? `(${held}) ` : ""}${name} · Headgate`;
  }, [view, held]);
  if (view === "exchange" && id !== undefined) return <ExchangeView key={id} id={id} />;
  const found = views.find((one) => one.view === view);
  if (found?.right !== undefined && !may(found.right))
    return (
      <main class="view">
        <div class="head">
          <h1>{found.name}</h1>
        </div>
        <Empty title="This is for operators">
          <p>You can view traffic, but not act on it. Ask the operator of this gateway for the role.</p>
        </Empty>
      </main>
    );
  if (found !== undefined) return <found.component key={view} />;
  return (
    <main class="view">
      <Empty title="Page not found">
        <a class="button" href={href("live")}>
          To the live traffic
        </a>
      </Empty>
    </main>
  );
}

function Side() {
  const state = session.value;
  const held = state.type === "in" ? state.about.held : 0;
  const current = place.value.view === "exchange" ? "live" : place.value.view;
  return (
    <nav class="side" aria-label="Views">
      <div class="brand">
        <img src="./icon.svg" alt="" />
        Headgate
      </div>
      {views.map(({ view, name, icon, key }) => (
        <a key={view} href={href(view)} aria-current={view === current ? "page" : undefined}>
          <Icon name={icon} />
          {name}
          {view === "held" && held > 0 ? (
            <span class="badge warn count">
              {held}
              <span class="visually-hidden"> waiting</span>
            </span>
          ) : (
            <kbd aria-hidden="true">g {key}</kbd>
          )}
        </a>
      ))}
      <span class="spacer wide-only" />
      <button type="button" class="item" onClick={() => (isPaletteOpen.value = true)}>
        <Icon name="command" />
        Commands
        <kbd aria-hidden="true">Ctrl K</kbd>
      </button>
      <button type="button" class="item wide-only" onClick={nextTheme}>
        <Icon name="theme" />
        Theme: {theme.value}
      </button>
      <button type="button" class="item wide-only" onClick={() => void signOut()}>
        <Icon name="out" />
        Sign out
        {state.type === "in" && <span class="caller cut">{visibleText(state.about.caller.name)}</span>}
      </button>
    </nav>
  );
}

function SignedOut({ reason }: { readonly reason: string | undefined }) {
  const isBusy = useSignal(false);
  const { value: ways } = useLoaded("", waysIn).value;
  return (
    <main class="sign-in">
      <img src="./icon.svg" alt="" />
      <h1>Headgate</h1>
      {reason !== undefined && <p class="soft">{reason}</p>}
      {ways?.oidc === true ? (
        <a class="button primary" href="./sign-in">
          Sign in
        </a>
      ) : (
        <p>
          To sign in, run <code>{ways?.command ?? "headgate console"}</code> in a terminal on the machine of the
          gateway.
        </p>
      )}
      <button
        type="button"
        class="button bare"
        disabled={isBusy.value}
        onClick={() => {
          isBusy.value = true;
          void startSession().finally(() => {
            isBusy.value = false;
          });
        }}
      >
        Try again
      </button>
    </main>
  );
}

/** Keys that work everywhere but in inputs. */
function useKeys(): void {
  useEffect(() => {
    let isGoing = false;
    const onKeyDown = (event: KeyboardEvent): void => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        isPaletteOpen.value = !isPaletteOpen.value;
        return;
      }
      const isTyping = event.target instanceof Element && event.target.closest("input, textarea, select") !== null;
      if (isTyping || event.ctrlKey || event.metaKey || event.altKey) return;
      if (isGoing) {
        isGoing = false;
        const found = views.find(({ key }) => key === event.key);
        if (found !== undefined) go(href(found.view));
        return;
      }
      if (event.key === "g") isGoing = true;
      if (event.key === "?") isPaletteOpen.value = true;
      if (event.key === "/") {
        const filter = document.querySelector<HTMLInputElement>("#filter");
        if (filter === null) return;
        event.preventDefault();
        filter.focus();
      }
    };
    addEventListener("keydown", onKeyDown);
    return () => removeEventListener("keydown", onKeyDown);
  }, []);
}
