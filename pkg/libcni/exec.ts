/** One run of one plugin. */
export interface Execution {
  /** The executable: what `findPlugin` returned, an absolute path unless it is one of your own. */
  readonly file: string
  /** The whole environment, the `CNI_*` variables in it. */
  readonly env: Readonly<Record<string, string>>
  /** The request: a JSON object. */
  readonly stdin: string
  /** Gets what the plugin writes to stderr, as it writes it. */
  readonly stderr: (chunk: Uint8Array) => void
  /** When this is over, the plugin has to be ended. */
  readonly timeoutMs?: number
  /** When this says stop, the plugin has to be ended: the lock of the container is held until `run` is over. */
  readonly signal?: AbortSignal
}

/** How a plugin ended. `cause` is undefined for exit code 0, else "exit status 3" or "signal: SIGKILL". */
export interface Outcome {
  /** The result of ADD, the answer to VERSION, or an error object. */
  readonly stdout: string
  /** The first part of stderr. */
  readonly stderr: string
  readonly cause: string | undefined
}

/**
 * How plugins are found and run, as Go's `invoke.Exec`: in place of files of `CNI_PATH` and processes of this machine, for tests
 * without root, plugins in a container or on another machine. What is left out is done as without it.
 */
export interface Exec {
  /** Returns the absolute path of a plugin's executable; throws when it does not exist. */
  findPlugin?(type: string, path: readonly string[]): string | Promise<string>
  /** Runs an executable to its end. Throws when it cannot be started, or had to be ended. */
  run?(execution: Execution): Promise<Outcome>
}
