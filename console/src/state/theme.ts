import { effect, signal } from "@preact/signals";

const themes = ["system", "light", "dark"] as const;

/** How the page looks. */
export type Theme = (typeof themes)[number];

const key = "headgate-theme";

/** The chosen theme; `system` follows the browser. */
export const theme = signal<Theme>(themes.find((one) => one === read()) ?? "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  try {
    localStorage.setItem(key, theme.value);
  } catch {
    // A browser that keeps nothing still shows the chosen theme.
  }
});

function read(): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

/** Chooses the next theme. */
export function nextTheme(): void {
  theme.value = themes[(themes.indexOf(theme.value) + 1) % themes.length] ?? "system";
}
