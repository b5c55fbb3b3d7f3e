/** The error codes of the CNI specification, 1.1.0 "Error", and upstream's 0, 8 and 999. */
export const Code = {
  Unknown: 0,
  IncompatibleVersion: 1,
  UnsupportedField: 2,
  UnknownContainer: 3,
  InvalidEnvironment: 4,
  Io: 5,
  Decoding: 6,
  InvalidNetworkConfig: 7,
  InvalidNetns: 8,
  TryAgainLater: 11,
  PluginNotAvailable: 50,
  LimitedConnectivity: 51,
  Internal: 999,
} as const

/** The error object that a plugin prints on stdout (CNI 1.1.0, "Error"). */
export interface ErrorObject {
  cniVersion: string
  code: number
  msg: string
  details?: string
}

/**
 * The only kind of error that leaves a plugin. `message` names the failed action, its object, and the reason. `details`
 * has the rest, by default the texts of the `cause` chain. With a temporary cause (`willPass`) code 999 becomes 11,
 * however often the error was wrapped.
 */
export class CniError extends Error {
  override readonly name = "CniError"
  readonly code: number
  readonly #details: string | undefined

  constructor(code: number, message: string, options: { details?: string; cause?: unknown } = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined)
    this.code = code === Code.Internal && willPass(options.cause) ? Code.TryAgainLater : code
    this.#details = options.details
  }

  /** The `details` of the error object: those of the constructor, or else the texts of the causes, joined with ": ". */
  get details(): string | undefined {
    if (this.#details !== undefined) return this.#details === "" ? undefined : this.#details
    const causes = causeTexts(this.cause)
    return causes.length > 0 ? causes.join(": ") : undefined
  }

  /** Returns `msg; details`, the format of logs and nested errors. */
  override toString(): string {
    return this.details === undefined ? this.message : `${this.message}; ${this.details}`
  }
}

/**
 * The error of an ADD for a container that an earlier ADD has attached and that uses the attachment. This ADD must not
 * undo any of it. A delegate that throws this error gets no DEL.
 */
export class AlreadyAttached extends CniError {}

/** Reports whether a value is a `CniError` with this code. */
export function isCniError(error: unknown, code?: number): error is CniError {
  return error instanceof CniError && (code === undefined || error.code === code)
}

/** Runs a check. Returns true if it succeeds, and false if it throws a `CniError`. Rethrows other errors. */
export function isWhole(check: () => void): boolean {
  try {
    check()
    return true
  } catch (error) {
    if (!isCniError(error)) throw error
    return false
  }
}

/** Returns the text of a thrown value, without the texts of its causes. */
export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

/** Runs `act`. Its error becomes the cause of a `CniError` with this message and code, 999 by default. */
export function orCannot<T>(message: string, act: () => T, code: number = Code.Internal): T {
  try {
    return act()
  } catch (cause) {
    throw new CniError(code, message, { cause })
  }
}

/** Reports whether an error, or one of its causes, is temporary: code 11, or, without a code, `willPass`. */
export function willPass(error: unknown): boolean {
  let at = error
  for (let depth = 0; at instanceof Error && depth < 8; depth++) {
    if (isCniError(at, Code.TryAgainLater) || ("willPass" in at && at.willPass === true)) return true
    at = at.cause
  }
  return false
}

/** Returns the error object for a thrown value: code 999 for other than a `CniError`, or 11 if it is temporary. */
export function toErrorObject(error: unknown, cniVersion: string): ErrorObject {
  const known = error instanceof CniError ? error : undefined
  const object: ErrorObject = {
    cniVersion,
    code: known?.code ?? (willPass(error) ? Code.TryAgainLater : Code.Internal),
    msg: known?.message ?? messageOf(error),
  }
  const details = known ? known.details : causeTexts(error instanceof Error ? error.cause : undefined).join(": ")
  if (details) object.details = details
  return object
}

function causeTexts(cause: unknown): string[] {
  const texts: string[] = []
  for (let at = cause; at !== undefined && at !== null && texts.length < 8; ) {
    if (at instanceof CniError) return [...texts, at.toString()]
    texts.push(messageOf(at))
    at = at instanceof Error ? at.cause : undefined
  }
  return texts
}
