import { exit } from "../libc/mod.ts"

const acts = new Set<() => void>()

/** Has something done when the process ends by `leave`, unless it is disposed of before. */
export function onLeave(act: () => void): Disposable {
  acts.add(act)
  return { [Symbol.dispose]: () => void acts.delete(act) }
}

/** Ends the process, after what has to be done before. */
export function leave(status: number): never {
  for (const act of acts) act()
  return exit(status)
}
