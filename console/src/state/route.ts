import { computed, signal } from "@preact/signals";

/** Where the page is: a view, what it shows, and its settings. */
export interface Place {
  readonly view: string;
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const hash = signal(location.hash);

/** The view that somebody came from; undefined if a link from elsewhere led here. */
let viewBefore: string | undefined;

addEventListener("hashchange", () => {
  viewBefore = place.peek().view;
  hash.value = location.hash;
});

/** Whether somebody comes from a view, so that what was chosen before is chosen still. */
export function comesFrom(view: string): boolean {
  return viewBefore === view;
}

/** The current place; the address is after `#`, which no server or proxy needs to know. */
export const place = computed<Place>(() => {
  const [path = "", search = ""] = hash.value.replace(/^#\/?/u, "").split("?");
  const [view = "", ...rest] = path.split("/");
  return {
    view: view === "" ? "live" : view,
    id: rest.length === 0 ? undefined : safeDecode(rest.join("/")),
    query: new URLSearchParams(search),
  };
});

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** The address of a place. */
export function href(view: string, id?: string, query: Readonly<Record<string, string | undefined>> = {}): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value !== undefined && value !== "") search.set(name, value);
  const tail = search.size === 0 ? "" : `?${search.toString()}`;
  return `#/${view}${id === undefined ? "" : `/${encodeURIComponent(id)}`}${tail}`;
}

/** Goes to a place. */
export function go(target: string): void {
  location.hash = target;
}

/** Goes back to where somebody came from; to the live traffic if that was not on this page. */
export function back(): void {
  if (viewBefore !== undefined) history.back();
  else replace(href("live"));
}

/** Goes to a place without a step in the history. */
export function replace(target: string): void {
  history.replaceState(undefined, "", target);
  hash.value = location.hash;
}
