import type { ComponentChildren } from "preact";

/** What is wrong, where something should be. */
export function Problem({ error }: { readonly error: Error | undefined }) {
  return error === undefined ? null : (
    <p class="problem" role="alert">
      {error.message}
    </p>
  );
}

/** What to do where there is nothing yet. */
export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }) {
  return (
    <div class="empty">
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** Something is being fetched. */
export function Loading({ what }: { readonly what: string }) {
  return (
    <div class="empty" role="status">
      <span class="spinner" />
      {what}
    </div>
  );
}
