import { exit } from "../libc/mod.ts"

const acts = new Set<() => void>()

/** Registers an action for the end of the process by `leave`, until it is disposed. */
export function onLeave(act: () => void): Disposable {
  acts.add(act)
  return { [Symbol.dispose]: () => void acts.delete(act) }
}

/** Ends the process after the registered actions. */
export function leave(status: number): never {
  for (const act of acts) act()
  return exit(status)
}
