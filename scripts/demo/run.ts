/**
 * Runs a demo as a program, and undoes what it has put on the stack however it ends. Returns the exit code: 1 where it needs root or has
 * failed, 130 ends the process after SIGINT or SIGTERM. `command` is the npm command that a user types.
 */
export async function runDemo(command: string, demo: (stack: AsyncDisposableStack) => Promise<void>): Promise<number> {
  if (process.getuid?.() !== 0) {
    console.error(`The demo makes network namespaces, which needs root: run \`sudo ${command}\``)
    return 1
  }
  const stack = new AsyncDisposableStack()
  let isInterrupted = false
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    process.once(signal, () => {
      isInterrupted = true
      console.error("\nInterrupted; cleaning up")
      stack.disposeAsync().finally(() => process.exit(130))
    })
  }
  try {
    await demo(stack)
    return 0
  } catch (error) {
    // An interrupt removes the namespaces under the demo: its errors then mean nothing.
    if (!isInterrupted) console.error(`\n${error instanceof Error ? error.message : error}`)
    return 1
  } finally {
    await stack.disposeAsync()
  }
}
