/** Milliseconds of the one clock that all threads and processes of this machine share. */
export function clockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
