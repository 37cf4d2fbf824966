/** The members of an object that are not undefined, for optional members that must be absent rather than undefined. */
export function withoutUndefined<Members extends object>(
  members: Members,
): { [Name in keyof Members]?: Exclude<Members[Name], undefined> } {
  // Only members without a value are left out.
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined)) as never;
}
