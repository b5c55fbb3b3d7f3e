import { afterAll } from "bun:test"
import { tellFigure } from "../lab/mod.ts"

/** Runs one try, and counts it as passed unless it throws. `what` is the heading under which it is counted. */
export type Count = (what: string, act: () => Promise<void>) => Promise<void>

/** Returns a function that counts tries by heading. Reports the numbers after the last test of the file. */
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
