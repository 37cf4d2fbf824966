const prefix = "headgate-";

/** A text that this tab of the browser keeps while it is open, also when the page is loaded again; undefined without one. */
export function stored(name: string): string | undefined {
  try {
    return sessionStorage.getItem(prefix + name) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps a text; undefined forgets it. */
export function store(name: string, text: string | undefined): void {
  try {
    if (text === undefined) sessionStorage.removeItem(prefix + name);
    else sessionStorage.setItem(prefix + name, text);
  } catch {
    // A browser that keeps nothing, or has no room, still shows what is there now.
  }
}

/** Forgets everything, such as when somebody signs out of a computer that others use, too. */
export function forgetStored(): void {
  try {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(prefix)) sessionStorage.removeItem(name);
  } catch {
    // It kept nothing.
  }
}
