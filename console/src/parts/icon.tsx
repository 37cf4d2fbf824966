const paths = {
  live: "M2 8h3l2-5 3 10 2-5h2",
  sessions: "M2 4h7M5 8h9M3 12h6",
  figures: "M3 13V8M8 13V3M13 13V6",
  play: "M5 3l8 5-8 5z",
  policy: "M8 2l5 2v4c0 3-2 5-5 6-3-1-5-3-5-6V4z",
  drift: "M4 3v10M12 3v10M4 6h8M4 10h8",
  held: "M5 3v10M11 3v10",
  search: "M7 2a5 5 0 1 0 0 10A5 5 0 0 0 7 2zM11 11l3 3",
  check: "M3 8.5l3.5 3.5L13 4.5",
  cross: "M4 4l8 8M12 4l-8 8",
  dash: "M4 8h8",
  info: "M8 7v5M8 4v.5M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z",
  copy: "M5 5h8v8H5zM3 11V3h8",
  command:
    "M5 5h6v6H5zM5 5H3.5A1.5 1.5 0 1 1 5 3.5zM11 5V3.5A1.5 1.5 0 1 1 12.500 5zM5 11v1.500A1.500 1.500 0 1 1 3.500 11zM11 11h1.500A1.500 1.500 0 1 1 11 12.500z",
  theme: "M8 2a6 6 0 1 0 6 6 4.500 4.500 0 0 1-6-6z",
  out: "M9 3H3v10h6M7 8h7M11 5l3 3-3 3",
} as const;

/** The name of an icon. */
export type IconName = keyof typeof paths;

/** A small drawing; what it means is said by the text beside it. */
export function Icon({ name, size = 16 }: { readonly name: IconName; readonly size?: number }) {
  return (
    <svg
      width={size}
      height={size}
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      aria-hidden="true"
    >
      <path d={paths[name]} />
    </svg>
  );
}
