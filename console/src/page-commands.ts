/** Something that the command palette offers. */
export interface PaletteCommand {
  readonly name: string;
  /** The keys that do the same, or where it belongs. */
  readonly keys?: string;
  readonly run: () => void;
}

/**
 * Whatever can be pressed in the view that is shown, by name: so nothing that a view offers needs a mouse, or has to be
 * found by going through everything before it.
 */
export function pageCommands(): readonly PaletteCommand[] {
  const found = new Map<string, PaletteCommand>();
  for (const element of document.querySelectorAll<HTMLElement>("main button:not(:disabled), main a.button")) {
    const name = nameOf(element);
    if (name === "" || found.has(name) || !element.checkVisibility()) continue;
    found.set(name, {
      name,
      keys: element.getAttribute("aria-keyshortcuts")?.replace("Control+", "Ctrl ") ?? "this page",
      run: () => {
        element.focus();
        element.click();
      },
    });
  }
  return [...found.values()];
}

/** What a button does, also without what stands around it. */
function nameOf(element: HTMLElement): string {
  const text = (element.getAttribute("aria-label") ?? element.innerText).replaceAll(/\s+/gu, " ").trim();
  if (element.getAttribute("role") === "tab") return `Show ${text}`;
  const group = element.closest("[role=group]")?.getAttribute("aria-label");
  const name = element.title === "" ? text : element.title;
  return element.classList.contains("bare") || group === undefined || group === null ? name : `${group} ${name}`;
}
