/** What a function makes, made when it is first asked for and then kept: importing a module does nothing yet. */
export function once<T extends object | bigint | number | null>(make: () => T): () => T {
  let made: T | undefined
  return () => {
    if (made === undefined) made = make()
    return made
  }
}
