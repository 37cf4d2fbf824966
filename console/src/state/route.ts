import { batch, computed, signal } from "@preact/signals";

/** Where the page is: a view, what it shows, and its settings. */
export interface Place {
  readonly view: string;
  readonly id: string | undefined;
  readonly query: URLSearchParams;
}

const hash = signal(location.hash);

/** The view that somebody came from; undefined if a link from elsewhere led here. */
let viewBefore: string | undefined;

/** How often a link, a key or the history led to a place; what a view notes in its address itself is not counted. */
export const arrivals = signal(0);

addEventListener("hashchange", () => {
  noted.clear();
  batch(() => {
    viewBefore = place.peek().view;
    hash.value = location.hash;
    arrivals.value++;
  });
});

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
  writeNotes();
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

/** What is to be noted in the address; undefined is taken out of it. */
const noted = new Map<string, string | undefined>();
let notedSoon: ReturnType<typeof setTimeout> | undefined;
let notedAt = -Infinity;
/** Browsers refuse to change the address all the time, as an arrow key would that is held: then only its end is noted. */
const noteMs = 250;

/**
 * Notes in the address what a view shows, so that a reload or a link that somebody shares shows it again. It takes no
 * step in the history.
 */
export function note(settings: Readonly<Record<string, string | undefined>>): void {
  for (const [name, value] of Object.entries(settings)) noted.set(name, value);
  const isHeld = performance.now() - notedAt < noteMs;
  notedAt = performance.now();
  clearTimeout(notedSoon);
  if (isHeld) notedSoon = setTimeout(writeNotes, noteMs);
  else writeNotes();
}

/** Writes what is to be noted at once. */
function writeNotes(): void {
  clearTimeout(notedSoon);
  if (noted.size === 0) return;
  const { view, id, query } = place.peek();
  const settings = { ...Object.fromEntries(query), ...Object.fromEntries(noted) };
  noted.clear();
  const target = href(view, id, settings);
  if (target !== location.hash) replace(target);
}
