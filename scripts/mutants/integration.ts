/** The integration tests that a mistake in a room is likely to be noticed by, a few and quick ones. */
const byRoom: Readonly<Record<string, readonly string[]>> = {}

/** The integration tests for what the unit tests of a room let pass, as paths from the root. */
export function integrationOf(room: string): string[] {
  const kind = room.split("/").slice(0, 2).join("/")
  return (byRoom[kind] ?? []).map((name) => `integration/${name}.test.ts`)
}
