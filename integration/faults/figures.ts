import { afterAll } from "bun:test"
import { tellFigure } from "../lab/mod.ts"

/** Counts one try of a kind; what it throws fails the test, and does not count as held. */
export type Count = (what: string, act: () => Promise<void>) => Promise<void>

/** Counts what the tests of a file try, by kinds, and tells the figures at its end. */
export function useTally(): Count {
  const figures = new Map<string, { tried: number; held: number }>()
  afterAll(async () => {
    for (const [what, figure] of figures) await tellFigure({ what, ...figure })
  })
  return async (what, act) => {
    const figure = figures.get(what) ?? { tried: 0, held: 0 }
    figures.set(what, figure)
    figure.tried++
    await act()
    figure.held++
  }
}
