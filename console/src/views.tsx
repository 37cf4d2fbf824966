import type { ComponentType } from "preact";

import { lazyView } from "./lazy-view.tsx";
import type { IconName } from "./parts/icon.tsx";
import { LiveView } from "./views/live/live-view.tsx";

interface ViewEntry {
  readonly view: string;
  readonly name: string;
  readonly icon: IconName;
  /** The key after `g`. */
  readonly key: string;
  readonly component: ComponentType;
  /** What a person must be allowed to do, to see it. */
  readonly right?: "operate";
}

/** Every view, in the order of the sidebar. */
export const views: readonly ViewEntry[] = [
  { view: "live", name: "Live", icon: "live", key: "l", component: LiveView },
  {
    view: "sessions",
    name: "Sessions",
    icon: "sessions",
    key: "s",
    component: lazyView(async () => (await import("./views/sessions/sessions-view.tsx")).SessionsView),
  },
  {
    view: "figures",
    name: "Figures",
    icon: "figures",
    key: "f",
    component: lazyView(async () => (await import("./views/figures/figures-view.tsx")).FiguresView),
  },
  {
    view: "playground",
    name: "Playground",
    icon: "play",
    key: "p",
    right: "operate",
    component: lazyView(async () => (await import("./views/playground/playground-view.tsx")).PlaygroundView),
  },
  {
    view: "policy",
    name: "Policy",
    icon: "policy",
    key: "b",
    component: lazyView(async () => (await import("./views/policy/policy-view.tsx")).PolicyView),
  },
  {
    view: "drift",
    name: "Drift",
    icon: "drift",
    key: "d",
    component: lazyView(async () => (await import("./views/drift/drift-view.tsx")).DriftView),
  },
  {
    view: "held",
    name: "Held",
    icon: "held",
    key: "h",
    right: "operate",
    component: lazyView(async () => (await import("./views/held/held-view.tsx")).HeldView),
  },
];
