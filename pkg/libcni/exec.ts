/** One run of one plugin. */
export interface Execution {
  /** The executable: the result of `findPlugin`, an absolute path unless `findPlugin` is the caller's own. */
  readonly file: string
  /** The whole environment, including the `CNI_*` variables. */
  readonly env: Readonly<Record<string, string>>
  /** The request: a JSON object. */
  readonly stdin: string
  /** Receives the plugin's stderr as it is written. */
  readonly stderr: (chunk: Uint8Array) => void
  /** The time after which the plugin must be ended. */
  readonly timeoutMs?: number
  /** When this aborts, the plugin must be ended: the container's lock is held until `run` returns. */
  readonly signal?: AbortSignal
}

/** The end of a plugin. `cause` is undefined for exit code 0, else "exit status 3" or "signal: SIGKILL". */
export interface Outcome {
  /** The result of ADD, the answer to VERSION, or an error object. */
  readonly stdout: string
  /** The first part of stderr. */
  readonly stderr: string
  readonly cause: string | undefined
}

/**
 * How plugins are found and run, like Go's `invoke.Exec`: replaces files of `CNI_PATH` and processes of this machine,
 * for tests without root, or plugins in a container or on another machine. A missing function has its default.
 */
export interface Exec {
  /** Returns the absolute path of a plugin's executable; throws if it does not exist. */
  findPlugin?(type: string, path: readonly string[]): string | Promise<string>
  /** Runs an executable to its end. Throws if it cannot be started or had to be ended. */
  run?(execution: Execution): Promise<Outcome>
}
