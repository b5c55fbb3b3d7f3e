import { afterAll } from "bun:test"
import { tellFigure } from "../lab/mod.ts"

/** Counts one try of a kind. An error of the try fails the test, and the try counts as failed. */
export type Count = (what: string, act: () => Promise<void>) => Promise<void>

/** Counts the tries of a test file by kind, and reports the figures at its end. */
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
