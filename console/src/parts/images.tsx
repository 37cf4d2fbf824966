import { useEffect, useState } from "preact/hooks";

import { formatBytes } from "../text.ts";
import { imagesOf, type SentImage } from "./sent-images.ts";

/** Images of somebody else: each is drawn when a person asks for it, and not before. */
export function Images({ of }: { readonly of: unknown }) {
  const images = imagesOf(of);
  if (images.length === 0) return null;
  return (
    <div class="stack">
      {images.map((image, index) => (
        <OneImage key={index} image={image} />
      ))}
    </div>
  );
}

function OneImage({ image: { type, data } }: { readonly image: SentImage }) {
  const [url, setUrl] = useState<string>();
  const [isBroken, setBroken] = useState(false);
  useEffect(() => () => URL.revokeObjectURL(url ?? ""), [url]);
  const show = (): void => {
    try {
      const bytes = Uint8Array.from(atob(data), (character) => character.charCodeAt(0));
      setUrl(URL.createObjectURL(new Blob([bytes], { type })));
    } catch {
      setBroken(true);
    }
  };
  if (isBroken) return <p class="faint">This image cannot be displayed.</p>;
  if (url === undefined)
    return (
      <div>
        <button type="button" class="button" onClick={show}>
          Show the image ({type}, {formatBytes(Math.floor(data.length * 0.75))})
        </button>
      </div>
    );
  return <img class="sent-image" src={url} alt="An image of the server" onError={() => setBroken(true)} />;
}
