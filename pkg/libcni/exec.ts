/** The input of one run of a plugin. */
export interface Execution {
  /** The executable, as returned by `findPlugin`. Always an absolute path, unless the caller replaces `findPlugin`. */
  readonly file: string
  /** The whole environment, including the `CNI_*` variables. */
  readonly env: Readonly<Record<string, string>>
  /** The configuration for the plugin: a JSON object. */
  readonly stdin: string
  /** Receives the plugin's stderr as it is written. */
  readonly stderr: (chunk: Uint8Array) => void
  /** The time after which `run` must end the plugin. */
  readonly timeoutMs?: number
  /** When it aborts, `run` must end the plugin. The container's lock is held until `run` returns. */
  readonly signal?: AbortSignal
}

/** The outcome of a run. `cause` is undefined for exit code 0, otherwise "exit status 3" or "signal: SIGKILL". */
export interface Outcome {
  /** The result of ADD, the answer to VERSION, or an error object. */
  readonly stdout: string
  /** The first part of stderr. */
  readonly stderr: string
  readonly cause: string | undefined
}

/**
 * The functions that find and run plugins, like Go's `invoke.Exec`. They replace the files of `CNI_PATH` and the
 * processes of this machine, for tests without root, or for plugins in a container or on another machine. A missing
 * function has its default.
 */
export interface Exec {
  /** Returns the absolute path of a plugin's executable. Throws if it does not exist. */
  findPlugin?(type: string, path: readonly string[]): string | Promise<string>
  /** Runs an executable until it ends. Throws if it could not be started or had to be killed. */
  run?(execution: Execution): Promise<Outcome>
}
