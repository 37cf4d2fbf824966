import { codePointName, hiddenCharacter } from "../text.ts";

const split = new RegExp(`(${hiddenCharacter.source})`, "u");

/** Text that somebody else wrote: shown as text only, with characters that cannot be seen made visible. */
export function Foreign({ text }: { readonly text: string }) {
  if (!hiddenCharacter.test(text)) return <>{text}</>;
  return (
    <>
      {text.split(split).map((part, index) =>
        index % 2 === 1 ? (
          <span key={index} class="hidden-character" title="invisible character">
            {codePointName(part)}
          </span>
        ) : (
          part
        ),
      )}
    </>
  );
}
