/**
 * Runs a demo and disposes of its stack in any case. Returns the exit code, which is 1 without root or after a failure.
 * SIGINT and SIGTERM end the process with exit code 130. `command` is the npm command that the user ran.
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
    // An interrupt removes the namespaces of the running demo, so errors of the demo are then meaningless.
    if (!isInterrupted) console.error(`\n${error instanceof Error ? error.message : error}`)
    return 1
  } finally {
    await stack.disposeAsync()
  }
}
