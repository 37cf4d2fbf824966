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
];
