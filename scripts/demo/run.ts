/**
 * Runs a demo as a program, and undoes its stack in any case. Returns the exit code: 1 without root or after a failure;
 * after SIGINT or SIGTERM the process ends with 130. `command` is the user's npm command.
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
    // An interrupt removes the namespaces of the running demo: its errors then mean nothing.
    if (!isInterrupted) console.error(`\n${error instanceof Error ? error.message : error}`)
    return 1
  } finally {
    await stack.disposeAsync()
  }
}
